package model

import "strings"

// Hosted tools are those that the provider runs on its own machines with its
// own network: with them a model reaches what the sandbox may not. Tools that
// are not known are taken for hosted ones.

// clientTools are types of tools that run where the client runs, or on the
// provider's side without a network. An entry that ends in "_" is a prefix.
var clientTools = map[API][]string{
	OpenAI: {
		"function", "custom", "code_interpreter", "file_search", "image_generation",
		"computer_use_preview", "computer-use-preview", "local_shell", "shell", "apply_patch",
	},
	Anthropic: {"custom", "bash_", "text_editor_", "computer_", "memory_", "code_execution_"},
}

// hostedKeys are members of a request that give a model a network by
// themselves: search options, plugins, remote tool servers, stored prompts.
var hostedKeys = []string{"web_search_options", "search_parameters", "plugins", "mcp_servers", "prompt_id", "web_search", "connectors",
	"enable_search", "search_options", "search_mode", "web_search_preview", "web_fetch", "grounding"}

// hostedKeys' values are refused or stripped; what Remote finds cannot be stripped,
// as it is a part of what is said.

// ours are members whose content the provider hands back and fetches nothing from:
// schemas of tools, arguments of calls of the client's own tools, sources that an
// earlier answer named.
var ours = map[string]bool{
	"parameters": true, "input_schema": true, "schema": true, "json_schema": true, "response_format": true, "output_schema": true,
	"arguments": true, "annotations": true, "citations": true, "metadata": true,
}

// maxRemoteDepth bounds how deep a request is searched; what lies deeper counts as
// remote.
const maxRemoteDepth = 64

// Remote says whether a request names something that the provider would fetch from
// the network by itself: an image, a document or a tool's server by its URL. Data in
// the request itself ("data:…") is no such thing.
func (r *Request) Remote() bool {
	for key, v := range r.body {
		if !ours[key] && (isRemote(key, v) || remoteIn(v, 0)) {
			return true
		}
	}
	return false
}

func remoteIn(v any, depth int) bool {
	if depth > maxRemoteDepth {
		return true
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if remoteIn(e, depth+1) {
				return true
			}
		}
	case map[string]any:
		kind, _ := v["type"].(string)
		for key, e := range v {
			if ours[key] || key == "input" && kind == "tool_use" {
				continue
			}
			if isRemote(key, e) || remoteIn(e, depth+1) {
				return true
			}
		}
	}
	return false
}

// isRemote finds a member that holds a URL, or that opens a network to a tool.
func isRemote(key string, v any) bool {
	low := strings.ToLower(key)
	if strings.Contains(low, "network") && !empty(v) {
		s, text := v.(string)
		return !text || s != "disabled" && s != "none"
	}
	s, ok := v.(string)
	if !ok || s == "" || !strings.HasSuffix(low, "url") && !strings.HasSuffix(low, "uri") {
		return false
	}
	return len(s) < len("data:") || !strings.EqualFold(s[:len("data:")], "data:")
}

// Hosted lists what a request asks the provider to run with a network.
func (r *Request) Hosted(api API) []string {
	var found []string
	for _, key := range hostedKeys {
		if v, ok := r.body[key]; ok && !empty(v) {
			found = append(found, key)
		}
	}
	if _, isText := r.body["prompt"].(map[string]any); isText {
		found = append(found, "prompt") // a stored prompt may hold tools
	}
	tools, _ := r.body["tools"].([]any)
	for _, t := range tools {
		if name, hosted := hostedTool(api, t); hosted {
			found = append(found, name)
		}
	}
	if _, odd := r.body["tools"].(map[string]any); odd {
		found = append(found, "tools")
	}
	return found
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case []any:
		return len(v) == 0
	}
	return false
}

func hostedTool(api API, tool any) (name string, hosted bool) {
	m, ok := tool.(map[string]any)
	if !ok {
		return "tool", true
	}
	if disguised(m, "type") != "" {
		return "tool", true
	}
	kind, ok := m["type"].(string)
	if !ok {
		_, typed := m["type"]
		return "tool", typed || api == OpenAI // Anthropic's plain tools have no type
	}
	for _, known := range clientTools[api] {
		if kind == known || strings.HasSuffix(known, "_") && strings.HasPrefix(kind, known) {
			return "", false
		}
	}
	if len(kind) > 40 {
		kind = kind[:40]
	}
	return kind, true
}

// StripHosted takes hosted tools out of a request.
func (r *Request) StripHosted(api API) {
	for _, key := range hostedKeys {
		delete(r.body, key)
	}
	if _, stored := r.body["prompt"].(map[string]any); stored {
		delete(r.body, "prompt")
	}
	tools, ok := r.body["tools"].([]any)
	if !ok {
		delete(r.body, "tools")
		return
	}
	var kept []any
	for _, t := range tools {
		if _, hosted := hostedTool(api, t); !hosted {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 {
		// A choice of tools without tools is an error at either provider.
		delete(r.body, "tools")
		delete(r.body, "tool_choice")
		return
	}
	r.body["tools"] = kept
}

// Search says whether a model looks things up by itself.
type Search string

// What is known of a model.
const (
	SearchNever   Search = "never"   // only when a request asks for it
	SearchItself  Search = "itself"  // whatever a request says
	SearchUnknown Search = "unknown" // not known here
)

// searchers are parts of the ids of models that search by themselves.
var searchers = []string{"sonar", "perplexity/", "-search-preview", "-search-api", "deep-research", "compound", ":online", "-online", "surf"}

// families are beginnings of the ids, without vendor, of models that do not.
var families = []string{
	"gpt-3.5", "gpt-4", "gpt-5", "gpt-oss", "chatgpt-4o", "o1", "o3", "o4", "codex", "text-embedding-",
	"claude-", "llama", "meta-llama", "mistral", "mixtral", "codestral", "devstral", "ministral", "magistral",
	"qwen", "qwq", "deepseek", "gemma", "phi-", "glm-", "kimi-", "granite", "command-", "nemotron", "starcoder", "yi-",
}

// Classify says what is known of a model by its id.
func Classify(id string) Search {
	low := strings.ToLower(id)
	for _, s := range searchers {
		if strings.Contains(low, s) {
			return SearchItself
		}
	}
	name := low
	if i := strings.LastIndexByte(low, '/'); i >= 0 {
		name = low[i+1:]
	}
	for _, f := range families {
		if strings.HasPrefix(name, f) {
			return SearchNever
		}
	}
	return SearchUnknown
}

// Verdict is the decision on a model before a sandbox starts. It is recorded.
type Verdict struct {
	Model    string `json:"model"`
	Route    string `json:"route"` // where requests for it go
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason"`
	Override bool   `json:"override"` // allowed only because the operator named it
	Remedy   string `json:"remedy,omitempty"`
}

// Reasons of a Verdict.
const (
	ReasonListed       = "model-listed"
	ReasonNotListed    = "model-not-listed"
	ReasonSearches     = "model-searches"
	ReasonUnclassified = "model-unclassified"
	ReasonOverride     = "model-override"
)

// Rules is what a policy says of models.
type Rules struct {
	Route      string   // base URL of the provider, for the record
	Allow      []string // ids and "vendor/*"
	SelfSearch []string // the operator's override, likewise
	Restricted bool     // web access is restricted: a model must not search by itself
}

// Decide decides on a model by its id.
func (r Rules) Decide(id string) Verdict {
	v := Verdict{Model: id, Route: r.Route}
	switch kind := Classify(id); {
	case !Listed(r.Allow, id):
		v.Reason = ReasonNotListed
		v.Remedy = "add the model to model.allow"
	case !r.Restricted || kind == SearchNever:
		v.Allowed, v.Reason = true, ReasonListed
	case Listed(r.SelfSearch, id):
		v.Allowed, v.Override, v.Reason = true, true, ReasonOverride
	case kind == SearchItself:
		v.Reason = ReasonSearches
		v.Remedy = "choose another model, or name it in model.self-search to let it search"
	default:
		v.Reason = ReasonUnclassified
		v.Remedy = "name it in model.self-search, by id or as vendor/*, if it may search or is known not to"
	}
	return v
}
