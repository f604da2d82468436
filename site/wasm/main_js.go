//go:build js && wasm

// Command wasm is the verifier for a web page. It gives the page one object,
// wallproof, with two functions:
//
//	wallproof.unpack(tar)            Uint8Array → {path: Uint8Array} or an Error
//	wallproof.verify(files, options) {path: Uint8Array}, JSON text → JSON text
//
// It has no other way in or out: it opens no connection and reads no file.
package main

import (
	"syscall/js"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/site/wasm/engine"
)

func main() {
	js.Global().Set("wallproof", map[string]any{
		"unpack": js.FuncOf(unpack),
		"verify": js.FuncOf(verify),
	})
	select {}
}

func unpack(_ js.Value, args []js.Value) any {
	if len(args) != 1 {
		return fail("unpack takes one archive")
	}
	files, err := engine.Unpack(content(args[0]))
	if err != nil {
		return fail(err.Error())
	}
	out := js.Global().Get("Object").New()
	for name, data := range files {
		a := js.Global().Get("Uint8Array").New(len(data))
		js.CopyBytesToJS(a, data)
		out.Set(name, a)
	}
	return out
}

func verify(_ js.Value, args []js.Value) any {
	if len(args) != 2 || args[0].Type() != js.TypeObject || args[1].Type() != js.TypeString {
		return fail("verify takes files and options")
	}
	names := js.Global().Get("Object").Call("keys", args[0])
	files := packet.Memory{}
	for i := range names.Length() {
		name := names.Index(i).String()
		files[name] = content(args[0].Get(name))
	}
	return string(engine.Verify(files, []byte(args[1].String())))
}

func content(v js.Value) []byte {
	b := make([]byte, v.Get("length").Int())
	js.CopyBytesToGo(b, v)
	return b
}

func fail(message string) any { return js.Global().Get("Error").New(message) }
