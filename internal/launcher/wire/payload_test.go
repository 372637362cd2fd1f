package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// TestPayloadBytes pins the layout that init/init.c reads.
func TestPayloadBytes(t *testing.T) {
	got, err := Payload([]string{"sh", "-c"}, []string{"A=1"}, []PayloadFile{
		{Name: "d/run", Data: []byte("#!/bin/sh"), Executable: true},
		{Name: "empty"},
		{Name: "ca", Run: true},
		{Name: "k/key", Data: []byte("12345678"), Run: true, Private: true},
	})
	want := "" +
		"CCP1" + "\x02\x00\x00\x00" + "\x01\x00\x00\x00" + "\x04\x00\x00\x00" + // magic, argc, envc, nfiles
		"\x0a\x00\x00\x00\x00\x00\x00\x00" + // bytes of strings
		"sh\x00-c\x00A=1\x00" + "\x00\x00\x00\x00\x00\x00" +
		"\x09\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00" + "\xed\x01\x00\x00" + // size, name, 0755
		"d/run\x00" + "\x00\x00" +
		"#!/bin/sh" + "\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00" + "\xa4\x01\x00\x00" + // 0644
		"empty\x00" + "\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00" + "\x24\x01\x00\x80" + // ours, 0444
		"ca\x00" + "\x00\x00\x00\x00\x00" +
		"\x08\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00" + "\x00\x01\x00\x80" + // ours, 0400
		"k/key\x00" + "\x00\x00" +
		"12345678"
	if err != nil || string(got) != want {
		t.Errorf("%v\n% x, want\n% x", err, got, want)
	}
}

func TestPayloadRefuses(t *testing.T) {
	ok := []string{"x"}
	for _, c := range []struct {
		name      string
		argv, env []string
		files     []PayloadFile
	}{
		{"no argv", nil, nil, nil},
		{"an empty argv[0]", []string{"", "x"}, nil, nil},
		{"NUL in argv", []string{"a\x00b"}, nil, nil},
		{"NUL in a later argument", []string{"a", "\x00"}, nil, nil},
		{"NUL in the environment", ok, []string{"A=\x00"}, nil},
		{"NUL in a name", ok, nil, []PayloadFile{{Name: "a\x00"}}},
		{"no name", ok, nil, []PayloadFile{{Name: "a"}, {}}},
	} {
		if b, err := Payload(c.argv, c.env, c.files); b != nil || !errors.Is(err, ErrPayload) {
			t.Errorf("%s: %d bytes, %v; want ErrPayload", c.name, len(b), err)
		}
	}
	if _, err := Payload([]string{"a", ""}, []string{""}, nil); err != nil {
		t.Errorf("an empty later argument and an empty string of the environment: %v", err)
	}
}

// parsed reads a payload back as init does.
func parsed(b []byte) (argv, env []string, files []PayloadFile, ok bool) {
	take := func(n uint64) []byte {
		padded := (n + 7) &^ 7
		if padded < n || padded > uint64(len(b)) {
			ok = false
			return make([]byte, min(n, 64))
		}
		got := b[:n]
		b = b[padded:]
		return got
	}
	ok = true
	head := take(24)
	counts := [3]uint32{}
	for i := range counts {
		counts[i] = binary.LittleEndian.Uint32(head[4+4*i:])
	}
	ok = ok && binary.LittleEndian.Uint32(head) == payloadMagic
	text := strings.Split(string(take(binary.LittleEndian.Uint64(head[16:]))), "\x00")
	if uint64(len(text)) != uint64(counts[0])+uint64(counts[1])+1 {
		return nil, nil, nil, false
	}
	for range counts[2] {
		h := take(16)
		name, data := take(uint64(binary.LittleEndian.Uint32(h[8:]))), take(binary.LittleEndian.Uint64(h))
		if !ok {
			return nil, nil, nil, false
		}
		f, known := kindOf(binary.LittleEndian.Uint32(h[12:]))
		f.Name, f.Data = string(bytes.TrimSuffix(name, []byte{0})), data
		files, ok = append(files, f), ok && known
	}
	return text[:counts[0]], text[counts[0] : len(text)-1], files, ok && len(b) == 0
}

// kindOf is the file that has such a mode.
func kindOf(mode uint32) (f PayloadFile, known bool) {
	for _, f := range kinds() {
		if f.mode() == mode {
			return f, true
		}
	}
	return PayloadFile{}, false
}

// kinds are every kind of file.
func kinds() []PayloadFile {
	return []PayloadFile{{}, {Executable: true}, {Run: true}, {Run: true, Private: true}}
}

// FuzzPayload: what is laid out is read back as it was, and nothing else is
// there.
func FuzzPayload(f *testing.F) {
	for kind := range kinds() {
		f.Add("sh", "-c", "A=1", "a/b", []byte("data"), uint8(kind))
	}
	f.Add("x", "", "", "\xff", []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, argv0, arg, env, name string, data []byte, kind uint8) {
		argv, environ := []string{argv0, arg}, []string{env}
		var files []PayloadFile
		for i, name := range []string{name, "second"} {
			file := kinds()[(int(kind)+i)%len(kinds())]
			file.Name, file.Data = name, data
			files = append(files, file)
		}
		b, err := Payload(argv, environ, files)
		if bad := argv0 == "" || name == "" || strings.Contains(argv0+arg+env+name, "\x00"); bad != (err != nil) {
			t.Fatalf("%q %q %q %q: %v", argv0, arg, env, name, err)
		}
		if err != nil {
			return
		}
		gotArgv, gotEnv, gotFiles, ok := parsed(b)
		if !ok || strings.Join(gotArgv, "\x00") != argv0+"\x00"+arg || strings.Join(gotEnv, "\x00") != env || len(gotFiles) != 2 {
			t.Fatalf("%v %q %q %d", ok, gotArgv, gotEnv, len(gotFiles))
		}
		for i, g := range gotFiles {
			if g.Name != files[i].Name || !bytes.Equal(g.Data, files[i].Data) || g.mode() != files[i].mode() {
				t.Fatalf("file %d: %+v, want %+v", i, g, files[i])
			}
		}
	})
}
