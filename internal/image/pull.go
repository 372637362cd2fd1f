package image

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	reference "github.com/google/go-containerregistry/pkg/name"

	"github.com/callcell/callcell/envelope"
)

// configFile is where the puller writes what the registry says of the image.
const configFile = "image.json"

// PullOptions say how an image is pulled.
type PullOptions struct {
	Ref      string           // REF of oci:REF
	Network  envelope.Network // where the registry is, and where it sends one
	Insecure bool             // plain HTTP, for a registry on this machine
	CA       []byte           // PEM: authorities that are trusted beside the usual ones; empty is none
	Tool     []byte           // the text of callcell-image
	Limits   Limits
}

// PlanPull plans to pull an image. The puller is a program of ours; what it
// reads is a stranger's, so that it runs in a cell.
func PlanPull(o PullOptions) (*Plan, error) {
	name := "oci:" + o.Ref
	if err := CheckName(name); err != nil {
		return nil, err
	}
	argv := []string{"./" + Tool, "pull", "-config", configFile}
	if o.Insecure {
		argv = append(argv, "-insecure")
	}
	p := &Plan{
		Name: name, Envelope: making(true, o.Network, o.Limits.Bytes),
		Forms: Forms{Dir: true, EROFS: true, MountPoints: true},
		Call: &envelope.Call{
			Tool: "image pull", Argv: append(argv, "--", o.Ref), Outputs: []string{configFile},
			Inputs: []envelope.File{{Name: Tool, Data: o.Tool, Executable: true}},
		},
	}
	if len(o.CA) > 0 { // beside those of the cell's own /etc/ssl/certs
		p.Call.Inputs = append(p.Call.Inputs, envelope.File{Name: "ca/ca.pem", Data: o.CA})
		p.Call.Env = map[string]string{"SSL_CERT_DIR": "/etc/ssl/certs:ca"}
		p.Envelope.Environment = []string{"SSL_CERT_DIR"}
	}
	p.record = func(r *envelope.Result) (*Record, error) { return pulled(name, o.Ref, output(r, configFile)) }
	return p, nil
}

// ociConfig is what the puller writes.
type ociConfig struct {
	Ref      string   `json:"ref"`
	Digest   string   `json:"digest"`
	Platform string   `json:"platform"`
	Layers   []string `json:"layers"`
	Env      []string `json:"env"`
}

func pulled(name, ref string, text []byte) (*Record, error) {
	var c ociConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	if !validDigest(c.Digest) {
		return nil, fmt.Errorf("%s: %.80q is not the digest of a manifest", configFile, c.Digest)
	}
	if _, asked, ok := strings.Cut(ref, "@"); ok && asked != c.Digest {
		return nil, fmt.Errorf("%s was asked for, and %s came", asked, c.Digest)
	}
	r := &Record{
		Name: name, Env: variables(c.Env),
		Source: &Source{Ref: ref, Digest: c.Digest, Platform: "linux/" + runtime.GOARCH, Layers: c.Layers},
	}
	return r, nil
}

// variables are those of an image's own that a cell's programs get: what they
// may do is the kernel's to say, and what the main path sets for every program
// stays.
func variables(list []string) map[string]string {
	env := map[string]string{}
	for _, v := range list {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || len(v) > 4096 || len(env) == maxEnv || strings.ContainsRune(v, 0) || name == "HOME" || name == "TMPDIR" {
			continue
		}
		env[name] = value
	}
	return env
}

// Registry is the host and port of the registry of a reference, which is spoken
// with over TLS, or in plain HTTP.
func Registry(ref string, plain bool) (host string, port int, err error) {
	parsed, err := reference.ParseReference(ref)
	if err != nil {
		return "", 0, err
	}
	host, digits, ok := strings.Cut(parsed.Context().RegistryStr(), ":")
	switch {
	case !ok && plain:
		return host, 80, nil
	case !ok:
		return host, 443, nil
	}
	port, err = strconv.Atoi(digits)
	return host, port, err
}
