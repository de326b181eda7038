// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// serveFiles serves the files of a directory over HTTP/3, with a certificate that it makes, until
// told to stop.
func serveFiles(ctx context.Context, port int, directory string) error {
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	made, err := certificate(secret)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler:    http.FileServer(http.Dir(directory)),
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{made}}),
		QUICConfig: &quic.Config{Tracer: trace},
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
