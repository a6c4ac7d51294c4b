package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// user is who the server is in a container: nobody's number on most hosts.
	user = 65532
	// certificates are taken along from this machine, if it has them.
	certificates = "/etc/ssl/certs/ca-certificates.crt"
)

// image packs a container image with nothing in it but the server, as docker
// load and podman load read it.
func (r *release) image(binary, goos, arch string) (string, error) {
	if goos != "linux" {
		return "", errors.New("container images are for linux")
	}
	entries := []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, text: fmt.Sprintf("root:x:0:0:root:/:/nologin\nweir:x:%d:%d:weir:/data:/nologin\n", user, user)},
		{name: "etc/group", mode: 0o644, text: fmt.Sprintf("root:x:0:\nweir:x:%d:\n", user)},
		{name: "tmp/", mode: 0o1777},
		// An empty named volume takes its owner and mode from here.
		{name: "data/", mode: 0o711, id: user},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/weir", mode: 0o755, file: binary},
	}
	switch _, err := os.Stat(certificates); {
	case err == nil:
		entries = append(entries, entry{name: "etc/ssl/", mode: 0o755}, entry{name: "etc/ssl/certs/", mode: 0o755},
			entry{name: certificates[1:], mode: 0o644, file: certificates})
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking for certificates: %w", err)
	}
	var layer bytes.Buffer
	if err := r.tar(&layer, entries); err != nil {
		return "", err
	}
	config, err := json.Marshal(r.config(arch, layer.Bytes()))
	if err != nil {
		return "", fmt.Errorf("describing the image: %w", err)
	}
	tags := []string{"weir:" + strings.ReplaceAll(r.version, "+", "-")} // which a tag may not have
	if r.latest {
		tags = append(tags, "weir:latest")
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": tags, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return "", fmt.Errorf("describing the image: %w", err)
	}
	name := "weir-" + r.version + "-image-" + arch + ".tar.gz"
	return name, r.write(name, func(w io.Writer) error {
		return r.tarGz(w, []entry{
			{name: configName, mode: 0o644, text: string(config)},
			{name: "layer.tar", mode: 0o644, text: layer.String()},
			{name: "manifest.json", mode: 0o644, text: string(manifest)},
		})
	})
}

// config is the image's configuration, in the words of the OCI image specification.
func (r *release) config(arch string, layer []byte) map[string]any {
	return map[string]any{
		"created": r.at.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User":         fmt.Sprintf("%d:%d", user, user),
			"Entrypoint":   []string{"/usr/local/bin/weir"},
			"Cmd":          []string{"serve"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}},
			"Volumes":      map[string]any{"/data": struct{}{}},
			// On all addresses of the container: without a token it refuses to start.
			"Env":        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/data", "WEIR_DATA=/data", "WEIR_LISTEN=:8080"},
			"WorkingDir": "/data",
			"StopSignal": "SIGTERM",
			"Labels": map[string]string{
				"org.opencontainers.image.title": "weir", "org.opencontainers.image.version": r.version,
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history": []map[string]any{{"created": r.at.Format(time.RFC3339), "created_by": "make image"}},
	}
}
