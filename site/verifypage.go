package site

// verifyView is the verify page.
type verifyView struct {
	Wasm                   bool
	Module, Fallback, Exec string
	Parts                  int
	Size                   int
	Packet, PacketScript   string
	Key, Identity, Issuer  string
	Command                string
}

func (b *builder) writeVerify() error {
	view := verifyView{Command: b.command()}
	v := b.page("verify/index.html", "Verify · "+b.publisher(), "Verify an evidence packet in the browser or on the command line.", view)
	return b.put("verify/index.html", pageVerify, v)
}
