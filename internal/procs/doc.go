// Package procs starts a helper process of ours (the proxy, the witness) inside
// a network namespace, without privileges, with its listening sockets handed
// over, and talks to it over pipes.
//
// # What the child has
//
//   - The network namespace Spec.NetNS; nothing else is namespaced here.
//   - Spec.UID and Spec.GID, no supplementary groups, no capability in any set
//     (effective, permitted, inheritable, ambient, bounding) and no_new_privs, so
//     that no exec can give it any back.
//   - RLIMIT_CORE 0, soft and hard, before it is given its configuration; Join
//     makes it undumpable besides, so that no process of the same user can
//     trace it or read its memory.
//   - A session of its own: a Ctrl-C at the terminal reaches the parent only,
//     which then stops its children in order.
//   - A parent-death signal (SIGKILL): it never outlives the parent.
//   - Descriptors 0 to 2 and Spec.Files from 3 on; nothing else is inherited.
//   - Exactly Spec.Env (and WALLPROOF_FDNAMES).
//
// # What is said over the pipes
//
// Standard input carries one JSON document, the configuration, and is then
// closed. Standard output carries lines of JSON, each at most MaxLine bytes:
//
//	{"ready":VALUE}    once, first: set-up is complete, sockets are being served
//	{"error":"TEXT"}   instead of ready: set-up failed, the process is about to exit
//	{"event":VALUE}    any number, after ready
//
// Anything else (another key, a second ready, a line too long, no JSON) is a
// fault: the process is killed, and Wait reports ErrProtocol. Standard error is
// for a reader of error messages: its first and last kilobytes are kept.
//
// The child's side of all this is Join.
//
// # Sockets
//
// ListenIn and ListenConfigIn open sockets in a namespace; the file is handed
// over by Spec.Files, and the namespace of a socket never changes. So a process
// in one namespace can serve sockets of another, without any privilege.
package procs
