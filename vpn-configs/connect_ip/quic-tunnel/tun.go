// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const largestPacketBytes = 65535

// openTUN opens a TUN interface for IP packets without further headers.
func openTUN(device string) (*os.File, error) {
	descriptor, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(device)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(descriptor, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(descriptor)
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	return os.NewFile(uintptr(descriptor), device), nil
}

// A carrier takes IP packets to the other end, and brings those that come from there.
type carrier interface {
	// send may answer with an ICMP packet for the sender of what cannot be sent.
	send(packet []byte) (icmp []byte, err error)
	receive(buffer []byte) (int, error)
	close()
}

// A tunnel carries the packets of an interface over the carrier that is there at the time: a client
// that begins anew makes another.
type tunnel struct {
	device  *os.File
	changed *sync.Cond
	now     carrier
}

func newTunnel(device *os.File) *tunnel {
	return &tunnel{device: device, changed: sync.NewCond(&sync.Mutex{})}
}

// use carries packets over a carrier until that ends, and says why it did.
func (t *tunnel) use(carrier carrier) error {
	t.changed.L.Lock()
	before := t.now
	t.now = carrier
	t.changed.L.Unlock()
	t.changed.Broadcast()
	if before != nil {
		before.close()
	}
	defer t.leave(carrier)
	buffer := make([]byte, largestPacketBytes)
	for {
		length, err := carrier.receive(buffer)
		if err != nil {
			return err
		}
		t.deliver(buffer[:length])
	}
}

// deliver gives this host a packet. One that its kernel does not take is lost, as on any link.
func (t *tunnel) deliver(packet []byte) {
	if _, err := t.device.Write(packet); err != nil && !errors.Is(err, os.ErrClosed) {
		log.Printf("a packet of %d bytes is lost: %v", len(packet), err)
	}
}

func (t *tunnel) leave(carrier carrier) {
	t.changed.L.Lock()
	defer t.changed.L.Unlock()
	if t.now == carrier {
		t.now = nil
	}
}

// carry takes packets from the interface, until that is gone. While there is no carrier they wait
// in the interface's queue.
func (t *tunnel) carry() error {
	buffer := make([]byte, largestPacketBytes)
	for {
		length, err := t.device.Read(buffer)
		if err != nil {
			return fmt.Errorf("%s: %w", t.device.Name(), err)
		}
		icmp, err := t.wait().send(buffer[:length])
		if err == nil && icmp != nil {
			t.deliver(icmp)
		}
	}
}

func (t *tunnel) wait() carrier {
	t.changed.L.Lock()
	defer t.changed.L.Unlock()
	for t.now == nil {
		t.changed.Wait()
	}
	return t.now
}

// close ends what is carried; the other end is told.
func (t *tunnel) close() {
	t.changed.L.Lock()
	defer t.changed.L.Unlock()
	if t.now != nil {
		t.now.close()
	}
}
