// Package boundary builds one phase's network namespaces by netlink: boxes for
// the sandboxes, a router with the packet filter, and a world that answers on
// every address. Nothing is shared with the host's network, and no packet leaves
// these namespaces.
//
//	box (one a sandbox) ──veth── router ──veth── world
//
// Names, addresses and the reasons for the layout are in docs/architecture.md.
//
// # Order of use
//
//	Claim           the run, so that Sweep leaves it alone
//	Build           namespaces, filter, links
//	VerifyInPlace   before the first sandbox; on an error nothing may start
//	WorldListeners  handed to the witness, Listeners to the proxy (enforced) or
//	                to the witness (open), by procs.Start
//	FilterState     before the first and after the last byte of untrusted code
//	ResetBox        before another sandbox starts in the same box
//	Close           removes everything
//
// The rules are in force before any link is up, and survive the death of the
// process that set them: a namespace lives by its name. What a killed run leaves
// is removed by Sweep.
//
// # Enforced mode
//
// A box may send to its own gateway: TCP 3128 (and 1080 with Config.SOCKS), TCP
// and UDP 53. TCP to port 80 or 443 anywhere else is redirected to the
// transparent listener, and port 53 to the resolver; both families alike. All
// else is refused at once and recorded (Denial): TCP by a reset, UDP by ICMP port
// unreachable, other protocols by ICMP administratively prohibited. UDP gets port
// unreachable because gVisor's UDP sockets report no other ICMP error; a UDP
// socket of either kind reports it only once it is connected, so a probe
// connects. The limits on ICMP errors are lifted. Recorded, but not answered, as
// the standards want it, are multicast and broadcast, and spoofed sources, whose
// answer would go to somebody else. gVisor's raw and ICMP sockets report no
// refusal, and Linux answers a protocol other than TCP, UDP and ICMP over IPv6
// only when its payload has an Internet checksum: there the record is the sign.
//
// A box of Config.Peers is a service of the run: the boxes that Peer.From names
// reach it over IPv4 TCP at Peer.Ports. It answers and begins nothing, and has
// neither proxy nor resolver.
//
// Forwarding is off (IPv4's is on where there are services); the filter decides before routing, so that packets without a
// route are refused and recorded, too. Sources are checked before the redirect.
// The router's own output is closed but for answers and, with a world, packets of
// Config.ProxyUID. With Uplink None there is no route out at all.
//
// # Open mode
//
// Everything is forwarded between boxes and to the world; nothing is redirected.
// It is the control's: it has no other use than to show that an attempt works
// when nothing stops it.
//
// # The world
//
// Every IPv4 and IPv6 destination is local to the world, and every TCP and UDP
// port leads to a catch-all socket but for those of Config.Services. What a
// witness does, without any privilege, in the world's namespace:
//
//   - TCP: origdst.TCP(conn) is the destination (SO_ORIGINAL_DST, as nft redirect
//     leaves it); answering is ordinary.
//   - UDP: origdst.ReadUDP reads a datagram with its destination
//     (IP_RECVORIGDSTADDR / IPV6_RECVORIGDSTADDR; nft tproxy leaves it in place,
//     a redirect would lose it: measured in both families). To answer,
//     origdst.ReplyUDP binds a new socket to that address and port.
//   - UDP on a port of Config.Services: the control message that came with the
//     datagram (IP_PKTINFO / IPV6_PKTINFO), given back with the answer, makes it
//     come from where it was asked.
//   - Everything else, for example ICMP, is in the capture; the kernel answers
//     echo requests by itself. VerifyInPlace's own datagrams (VerifyAddr4,
//     VerifyAddr6, UDP port 9) are in it when the socket was opened before.
//
// # Known limits
//
//   - IPv6 link-local, multicast and loopback destinations never get past a router,
//     so in the open mode, too, they do not reach the world.
//   - The gateway's own ports other than 3128, 53 and 1080 have nobody behind them
//     in the open mode: the kernel refuses.
//   - ARP and frames of other kinds than IP are not filtered, as nothing answers
//     them: the router has fixed neighbours, answers ARP only for the address of
//     the link that it came by, and forwards IP alone.
//   - Whoever is root in the host's namespaces can change all of this; FilterState
//     shows changes of the filter.
package boundary
