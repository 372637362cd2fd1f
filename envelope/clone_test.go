package envelope

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestClone(t *testing.T) {
	e := full()
	c := e.Clone()
	if !reflect.DeepEqual(c, e) {
		t.Errorf("got %+v", c)
	}
	spoil(reflect.ValueOf(&c))
	if !reflect.DeepEqual(e, full()) {
		t.Error("the copy shares memory")
	}
	var zero Envelope
	out := zero.Clone()
	for name, isNil := range map[string]bool{
		"environment": out.Environment == nil, "mounts": out.Files.Mounts == nil, "allow": out.Network.Allow == nil,
		"private": out.Network.Private == nil, "credentials": out.Credentials == nil,
	} {
		if isNil {
			t.Errorf("%s is nil and would be written as null", name)
		}
	}
}

func TestRedacted(t *testing.T) {
	e := full()
	r := e.Redacted()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"/srv", "vault", "OLD_TOKEN", "/etc/callcell"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%s is in %s", secret, data)
		}
	}
	if !reflect.DeepEqual(e, full()) {
		t.Error("the envelope was changed")
	}
	if r.Files.Mounts["models"].Target != "/models" || r.Credentials["old"].Use.Env != "TOKEN" {
		t.Error("too much is gone")
	}
}
