// SPDX-License-Identifier: GPL-3.0-or-later

// quic-tunnel is one end of a tunnel over QUIC.
//
//	quic-tunnel keygen FILE          makes a key in FILE, and prints its public half
//	quic-tunnel connect-ip [options] carries the packets of a TUN interface (RFC 9484)
//	quic-tunnel split [options]      ends TCP connections, and carries what is in them as streams
//	quic-tunnel files PORT DIRECTORY serves the files of a directory over HTTP/3, and takes uploads
//	quic-tunnel send ADDRESS:PORT BYTES LIMIT uploads to it within LIMIT s, and prints what it says
//
// It stays in the foreground until SIGTERM. What it says goes to its standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// An end says what one end of a tunnel is to be.
type end struct {
	isServer    bool
	address     netip.AddrPort // where the server is
	device      string
	key, peer   string // files
	packetBytes int    // of the largest UDP payload
	roundTrip   time.Duration
	keepalive   time.Duration
	carry       string
	sessions    string
	tcpPort     int // where nftables hands connections over
	mark        int // of packets of connections that go on from here
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("usage: quic-tunnel keygen FILE | connect-ip [options] | split [options] | files PORT DIRECTORY" +
			" | send ADDRESS:PORT BYTES LIMIT")
	}
	// The job ends its children with SIGTERM: the other end is told, so that it need not find out.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	defer waitForQlogs()
	switch command, rest := words[0], words[1:]; command {
	case "keygen":
		if len(rest) != 1 {
			return fmt.Errorf("usage: quic-tunnel keygen FILE")
		}
		return makeKey(rest[0])
	case "files":
		if len(rest) != 2 {
			return fmt.Errorf("usage: quic-tunnel files PORT DIRECTORY")
		}
		port, err := strconv.Atoi(rest[0])
		if err != nil || port < 1 || port > 65535 {
			return fmt.Errorf("%q is no port", rest[0])
		}
		return serveFiles(ctx, port, rest[1])
	case "send":
		if len(rest) != 3 {
			return fmt.Errorf("usage: quic-tunnel send ADDRESS:PORT BYTES LIMIT")
		}
		bytes, wrongBytes := strconv.ParseInt(rest[1], 10, 64)
		limit, wrongLimit := strconv.ParseFloat(rest[2], 64)
		if err := errors.Join(wrongBytes, wrongLimit); err != nil {
			return err
		}
		return sendFile(ctx, rest[0], bytes, time.Duration(limit*float64(time.Second)))
	case "connect-ip", "split":
		one, err := parse(command, rest)
		if err != nil {
			return err
		}
		if command == "split" {
			return split(ctx, one)
		}
		return connectIP(ctx, one)
	default:
		return fmt.Errorf("quic-tunnel: %q is no command: keygen, connect-ip, split, files or send", command)
	}
}

func parse(command string, words []string) (end, error) {
	var one end
	var role, address string
	var rtt, keepalive int
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&role, "role", "", "server or client")
	flags.StringVar(&address, "server", "", "ADDRESS:PORT of the server")
	flags.StringVar(&one.device, "device", "", "TUN interface, which exists")
	flags.StringVar(&one.key, "key", "", "file with this end's key")
	flags.StringVar(&one.peer, "peer", "", "file with the other end's public key")
	flags.IntVar(&one.packetBytes, "packet-bytes", 1452, "largest UDP payload")
	flags.IntVar(&rtt, "rtt-s", 1, "round trip of the path, rounded up")
	flags.IntVar(&keepalive, "keepalive-s", 0, "seconds without a packet until one is sent; 0: none")
	flags.StringVar(&one.carry, "carry", "datagram", "datagram or stream")
	flags.StringVar(&one.sessions, "sessions", "one", "one for all connections, or each its own")
	flags.IntVar(&one.tcpPort, "tcp-port", 0, "where nftables hands connections over")
	flags.IntVar(&one.mark, "mark", 0, "of packets of connections that go on from here")
	if err := flags.Parse(words); err != nil {
		return one, err
	}
	if role != "server" && role != "client" {
		return one, fmt.Errorf("-role is %q: server or client", role)
	}
	if one.carry != "datagram" && one.carry != "stream" {
		return one, fmt.Errorf("-carry is %q: datagram or stream", one.carry)
	}
	if one.sessions != "one" && one.sessions != "each" {
		return one, fmt.Errorf("-sessions is %q: one or each", one.sessions)
	}
	if one.packetBytes < 1200 || one.packetBytes > 1452 {
		return one, fmt.Errorf("QUIC needs a path for UDP payloads of 1200 bytes (RFC 9000, 14); here it is %d", one.packetBytes)
	}
	where, err := netip.ParseAddrPort(address)
	if err != nil {
		return one, fmt.Errorf("-server: %w", err)
	}
	one.isServer, one.address = role == "server", where
	one.roundTrip = time.Duration(rtt) * time.Second
	one.keepalive = time.Duration(keepalive) * time.Second
	return one, nil
}
