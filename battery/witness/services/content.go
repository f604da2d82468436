package services

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
)

// Issue is an issue of a forge or tracker.
type Issue struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

// Tool is a tool of the tool server.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Output      string          `json:"output"` // what every call returns
}

// Pages serves fixed content, by "host/path" or else by "/path" on any host.
func Pages(pages map[string]string) Service {
	return func(req Request) (Response, bool) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			return Response{}, false
		}
		body, ok := pages[req.Host+req.Path]
		if !ok {
			body, ok = pages[req.Path]
		}
		if !ok {
			return Response{}, false
		}
		r := text(http.StatusOK, body)
		switch ext := path.Ext(req.Path); ext {
		case "", ".html", ".htm":
			r.Header.Set("Content-Type", "text/html; charset=utf-8")
		case ".json":
			r.Header.Set("Content-Type", "application/json")
			r.Closed = true
		default:
			if t := mime.TypeByExtension(ext); t != "" {
				r.Header.Set("Content-Type", t)
			}
		}
		return r, true
	}
}

// Issues serves issues by "owner/repo#number" at the path that GitHub's REST API
// has, /repos/OWNER/REPO/issues/NUMBER, and as a page at
// /OWNER/REPO/issues/NUMBER.
func Issues(issues map[string]Issue) Service {
	return func(req Request) (Response, bool) {
		if req.Method != http.MethodGet {
			return Response{}, false
		}
		p := strings.TrimPrefix(req.Path, "/api/v3")
		api := strings.HasPrefix(p, "/repos/")
		repo, number, ok := strings.Cut(strings.Trim(strings.TrimPrefix(p, "/repos"), "/"), "/issues/")
		is, found := issues[repo+"#"+number]
		if !ok || !found {
			return Response{}, false
		}
		if !api {
			return text(http.StatusOK, "# "+is.Title+"\n\n"+is.Body+"\n"), true
		}
		return object(req, http.StatusOK, map[string]any{
			"number": json.Number(safeNumber(number)), "title": is.Title, "body": is.Body, "state": "open",
			"html_url": fmt.Sprintf("https://%s/%s/issues/%s", req.Host, repo, number), "user": map[string]any{"login": "reporter"},
		}), true
	}
}

// safeNumber returns s where it is a number, else "0".
func safeNumber(s string) string {
	for _, c := range s {
		if c < '0' || c > '9' {
			return "0"
		}
	}
	if s == "" || len(s) > 9 || s[0] == '0' {
		return "0"
	}
	return s
}

// protocolVersion is the revision of the Model Context Protocol that the tool
// server speaks, over its streamable HTTP transport without streams.
const protocolVersion = "2025-03-26"

// Tools answers as a tool server: JSON-RPC 2.0 by POST to a path that ends in
// /mcp, with the methods initialize, ping, tools/list and tools/call.
func Tools(tools []Tool) Service {
	return func(req Request) (Response, bool) {
		if req.Method != http.MethodPost || !strings.HasSuffix(strings.TrimSuffix(req.Path, "/"), "/mcp") {
			return Response{}, false
		}
		var call rpcCall
		if json.Unmarshal(req.Body, &call) != nil {
			return rpcError(json.RawMessage("null"), -32700, "parse error"), true
		}
		if len(call.ID) == 0 { // a notification
			return Response{Status: http.StatusAccepted, Header: http.Header{}, Closed: true}, true
		}
		return answerCall(req, call, tools), true
	}
}

type rpcCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

func answerCall(req Request, call rpcCall, tools []Tool) Response {
	switch call.Method {
	case "initialize":
		return rpcResult(call.ID, map[string]any{
			"protocolVersion": protocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "wallproof-tools", "version": "1", "title": req.Answer},
		})
	case "ping":
		return rpcResult(call.ID, map[string]any{})
	case "tools/list":
		list := []any{}
		for _, t := range tools {
			schema := t.InputSchema
			if len(schema) == 0 {
				schema = json.RawMessage(`{"type":"object"}`)
			}
			list = append(list, map[string]any{"name": t.Name, "description": t.Description, "inputSchema": schema})
		}
		return rpcResult(call.ID, map[string]any{"tools": list, "_meta": map[string]any{"witness": req.Answer}})
	case "tools/call":
		for _, t := range tools {
			if t.Name == call.Params.Name {
				content := []any{map[string]any{"type": "text", "text": t.Output}}
				if req.Answer != "" {
					content = append(content, map[string]any{"type": "text", "text": req.Answer})
				}
				return rpcResult(call.ID, map[string]any{"content": content, "isError": false})
			}
		}
		return rpcError(call.ID, -32602, "unknown tool")
	}
	return rpcError(call.ID, -32601, "method not found")
}

func rpcResult(id json.RawMessage, result any) Response {
	return value(http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func rpcError(id json.RawMessage, code int, message string) Response {
	return value(http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
}
