//go:build !linux

package service

import (
	"context"
	"errors"
	"net"
	"os"
)

// dialSocket has no way here to connect to what it has looked at.
func dialSocket(context.Context, *os.Root, string) (net.Conn, error) {
	return nil, errors.New("a socket in the workspace works on Linux only; use service.port")
}
