// Release builds what a release consists of: for each system an archive with a
// static binary, their checksums, and container images. It needs Go and git,
// no container engine and no registry. From one commit with one Go version the
// archives are the same, byte for byte; an image also has the certificates of
// the machine that made it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

// run makes archives of the targets, or images with -image.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "dist", "folder for what is made")
	asImage := flags.Bool("image", false, "make container images and no archives")
	targets := flags.String("targets", "", "systems, as linux/amd64,darwin/arm64; all if empty, with -image linux on this processor")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *targets == "" {
		*targets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"
		if *asImage {
			*targets = "linux/" + runtime.GOARCH
		}
	}
	r, err := newRelease(ctx, *out)
	if err != nil {
		return err
	}
	var made []string
	for t := range strings.SplitSeq(*targets, ",") {
		goos, arch, _ := strings.Cut(t, "/")
		name, err := r.target(ctx, goos, arch, *asImage)
		if err != nil {
			return fmt.Errorf("making %s: %w", t, err)
		}
		made = append(made, name)
		fmt.Fprintln(stdout, filepath.Join(*out, name))
	}
	if *asImage {
		return nil
	}
	if err := sums(*out, made); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	fmt.Fprintln(stdout, filepath.Join(*out, "SHA256SUMS"))
	return nil
}

// release is one version on its way out.
type release struct {
	out     string
	version string
	at      time.Time // of the commit: everything inside carries it
	latest  bool      // images are also the tag latest
}

// newRelease asks git what is released: a tag, or the commit behind none, in the
// words of weir version.
func newRelease(ctx context.Context, out string) (*release, error) {
	tag, err := git(ctx, "describe", "--tags", "--match", "v[0-9]*", "--dirty=+changes")
	if err != nil {
		if tag, err = git(ctx, "describe", "--always", "--exclude", "*", "--abbrev=12", "--dirty=+changes"); err != nil {
			return nil, err
		}
		tag = "devel-" + tag
	}
	seconds, err := git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the time of the commit: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // what is released is for all
		return nil, fmt.Errorf("making %s: %w", out, err)
	}
	return &release{out: out, version: tag, at: time.Unix(n, 0).UTC(), latest: true}, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("asking git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// target builds for one system and gives the name of the file it made.
func (r *release) target(ctx context.Context, goos, arch string, asImage bool) (string, error) {
	dir, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		return "", fmt.Errorf("making a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "weir")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary,
		"-ldflags", "-s -w -X github.com/weirhq/weir/server/app.version="+r.version, ".")
	// Variables of the builder's own would make another program of it.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building: %w", err)
	}
	if asImage {
		return r.image(binary, goos, arch)
	}
	return r.archive(ctx, binary, goos, arch)
}
