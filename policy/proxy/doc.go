// Package proxy enforces a policy: the one way out of a sandbox.
//
// One Server serves one run: one tenant, one policy, one certificate
// authority, whose key never leaves memory. It is reached on listeners of
// several kinds (see Kind) and answers for each connection three questions in
// this order, from one evaluator (package policy):
//
//  1. May this name be reached, at this port, by this method and path? Nothing
//     is looked up or dialled before the answer is yes.
//  2. Do CONNECT target or original destination, SNI, Host or :authority, and
//     the resolved address agree, and may the address be reached? The address
//     that was classified is the address that is dialled.
//  3. Does a rule need sight of the request (injection, methods, paths, the
//     token broker)? Then TLS is terminated with a certificate of the run's
//     authority; otherwise it is passed on untouched after its ClientHello was
//     read.
//
// Credentials are added only after all three, and every byte that goes back
// passes package redact.
//
// # The process
//
// Main is the whole of the proxy's process; Start is the parent's side. Both
// speak the protocol of package internal/procs: Config on standard input, then
// Ready, then events, several at a time as a JSON array. Updates go over a
// socket of their own. The process never outlives its parent.
//
// It is a sandbox of its own: a user that nothing else is, user, mount, PID, IPC
// and UTS namespaces that it shares with no process, an empty read-only root
// (no shell, no program, no library, no file), no capability, a filter of system
// calls, no core dumps, and locked memory where the limits allow it. Its network
// namespace is the uplink's: it needs one that leads out, and the sandboxes are
// in others. Ready says what of this is in force; see package confine.
//
// # What it cannot do
//
//   - TLS that is passed on untouched is not looked into: what a host is told
//     there, and what comes back, nobody sees. A host with path, method, pin or
//     injection rules is never passed on.
//   - A host that is given a credential can misuse it, and can send it back in a
//     form that package redact does not know.
//   - A push is a fast-forward as far as the pack's commits and the forge's own
//     comparison show it at that moment; two pushes at once are the forge's
//     business, which compares the old id itself.
//   - Nothing is hidden from root of the host: the values are in this process's
//     memory.
//
// # Refusals
//
// A refusal in HTTP is 403, 421, 400 or 502 with the header
// "X-Wallproof-Reason: <code>"; in TLS that cannot be answered an
// access_denied alert; in DNS the code REFUSED; in SOCKS5 the reply 2. The
// codes are the constants beginning with Reason and those of package policy.
package proxy
