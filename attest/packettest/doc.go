// Package packettest makes evidence packets for tests: complete, consistent,
// signed, of the whole catalogue, with knobs for everything that can go wrong.
// No sandbox is involved: the observations are those that an intact boundary
// gives, but for the techniques that a test wants otherwise.
//
//	p := packettest.New(t)                                   // valid and current
//	p := packettest.New(t, packettest.Escape("NET-TCP-DIRECT"))
//	report := verify.Verify(p.Input())
//	dir := p.WriteDir(t, t.TempDir())
//
// Everything but keys and signatures is the same on every call.
package packettest
