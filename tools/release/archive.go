package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// beside are the files and folders that go with the binary: the documents, and
// what they have links to.
var beside = []string{"README.md", "CHANGELOG.md", "LICENSE", "docs", "helpers/weir.py", "helpers/weir-log", "web/client", "web/e2e/clients"}

// archive packs the binary with what goes with it: a zip for Windows.
func (r *release) archive(ctx context.Context, binary, goos, arch string) (string, error) {
	stem := "weir-" + r.version + "-" + goos + "-" + arch
	name, program, pack := stem+".tar.gz", "weir", r.tarGz
	if goos == "windows" {
		name, program, pack = stem+".zip", "weir.exe", r.zip
	}
	entries := []entry{{name: stem + "/" + program, mode: 0o755, file: binary}}
	// What git knows: a build may have left other files there.
	files, err := git(ctx, append([]string{"ls-files", "-z", "--"}, beside...)...)
	if err != nil {
		return "", err
	}
	for file := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		e := entry{name: stem + "/" + file, mode: 0o644, file: file}
		info, err := os.Stat(file)
		if err != nil {
			return "", fmt.Errorf("reading what goes into an archive: %w", err)
		}
		if info.Mode()&0o100 != 0 {
			e.mode = 0o755
		}
		entries = append(entries, e)
	}
	return name, r.write(name, func(w io.Writer) error { return pack(w, entries) })
}

// entry is one file or folder (its name ends in a slash) of an archive.
type entry struct {
	name string
	mode int64
	file string // where its content stands; else
	text string // the content itself
	id   int    // user and group
}

func (e entry) content() ([]byte, error) {
	if e.file == "" {
		return []byte(e.text), nil
	}
	data, err := os.ReadFile(e.file)
	if err != nil {
		return nil, fmt.Errorf("reading what goes into an archive: %w", err)
	}
	return data, nil
}

// write makes a file whole or not at all.
func (r *release) write(name string, fill func(io.Writer) error) error {
	path := filepath.Join(r.out, name)
	f, err := os.CreateTemp(r.out, ".release-")
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = errors.Join(fill(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func (r *release) tarGz(w io.Writer, entries []entry) error {
	z := gzip.NewWriter(w)
	return errors.Join(r.tar(z, entries), z.Close())
}

func (r *release) tar(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		data, err := e.content()
		if err != nil {
			return err
		}
		h := &tar.Header{
			Name: e.name, Mode: e.mode, Size: int64(len(data)), ModTime: r.at, Uid: e.id, Gid: e.id,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := t.Write(data); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return t.Close()
}

func (r *release) zip(w io.Writer, entries []entry) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		data, err := e.content()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.at}
		h.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(h)
		if err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := f.Write(data); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return z.Close()
}

// sums writes SHA256SUMS as sha256sum -c reads it.
func sums(dir string, names []string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644) //nolint:gosec // for all to read
}
