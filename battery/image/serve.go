package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// ServeRegistry serves images from a registry in this process, on a loopback
// address, so that pulling by digest is the real thing: each can be resolved
// as "<addr>/<name>@<digest>". stop ends it, and so does the end of ctx.
func ServeRegistry(ctx context.Context, images map[string]v1.Image) (addr string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serve a registry: %w", err)
	}
	srv := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	detach := context.AfterFunc(ctx, func() { srv.Close() })
	stop = func() error {
		detach()
		closeErr := srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		done <- http.ErrServerClosed // so that it may be called again
		return closeErr
	}
	addr = l.Addr().String()
	for repo, img := range images {
		if err := push(ctx, addr+"/"+repo, img); err != nil {
			stop()
			return "", nil, fmt.Errorf("serve a registry: %w", err)
		}
	}
	return addr, stop, nil
}

func push(ctx context.Context, repo string, img v1.Image) error {
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	ref, err := name.NewDigest(repo + "@" + digest.String())
	if err != nil {
		return err
	}
	return remote.Write(ref, img, remote.WithContext(ctx), remote.WithTransport(onlyLoopbackInClear{http.DefaultTransport}))
}
