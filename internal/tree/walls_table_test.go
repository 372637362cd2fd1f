package tree

func frontEnds() []string {
	return []string{"./internal/cli/...", "./internal/httpapi/...", "./internal/mcp/...", "./internal/console/..."}
}

// walls is the plan of the house: who must not know whom, and why.
func walls() []wall {
	return concat(vocabulary(), boundary(), mainPath())
}

func concat(parts ...[]wall) (all []wall) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// vocabulary are the packages that are shared by guest, client and host, or
// have to be provable in isolation.
func vocabulary() []wall {
	const shared = "shared by guest, client and host, and provable in isolation"
	return []wall{
		{rooms: []string{"./envelope/..."}, only: []string{}, why: shared},
		{rooms: []string{"./internal/placement/..."}, only: []string{"./envelope"}, why: shared},
		{rooms: []string{"./internal/egress/policy/..."}, only: []string{"./envelope"}, why: shared},
		{rooms: []string{"./client/..."}, only: []string{"./envelope"}, why: "a client of the wire needs the words alone"},
		{rooms: []string{"./internal/render/..."}, only: []string{"./envelope"}, why: "every front end and every log uses it"},
		{rooms: []string{"./..."}, except: []string{"./internal/config/..."}, banned: []string{"go.yaml.in/...", "gopkg.in/yaml.v3/..."}, direct: true,
			why: "YAML becomes JSON in one place, so that a file and a request cannot differ"},
	}
}

// boundary are the processes that stand at the boundary or in it.
func boundary() []wall {
	controlPlane := []string{"./internal/broker/...", "./internal/gateway/...", "./internal/egress/...", "./internal/credential/...",
		"./internal/store/...", "./internal/audit/...", "./internal/assembly/...", "./internal/config"}
	launcher := append(append([]string{"net/http", "encoding/json", "go.yaml.in/..."}, controlPlane...), frontEnds()...)
	return []wall{
		{rooms: []string{"./internal/guest/..."},
			banned: []string{"net/http", "./internal/store/...", "./internal/gateway/...", "./internal/credential/...", "./internal/audit/...", "./internal/egress/...", "./internal/launcher/..."},
			why:    "the host's side of the channel reads what the attacker says, and knows nothing of the control plane"},
		{rooms: []string{"./internal/guest/inside/...", "./internal/guest/mux/...", "./internal/guest/wire/...", "./cmd/callcell-guest"}, except: []string{"./internal/guest/inside/testdata/..."},
			only: []string{"golang.org/x/sys/...", "./internal/guest/inside", "./internal/guest/mux", "./internal/guest/wire", "./internal/lineage"},
			why:  "what stands in the cell carries nothing of the control plane, and starts quickly"},
		{rooms: []string{"./internal/launcher/...", "./cmd/callcell-launcher"}, except: []string{"./internal/launcher/seccomp/gen/..."}, banned: launcher,
			why: "the privileged process knows nothing worth stealing, parses one small message, and starts quickly"},
		{rooms: []string{"./internal/egress/serve/...", "./internal/egress/carry/...", "./internal/egress/inspect/...", "./internal/egress/fetch/...", "./internal/egress/names/...", "./internal/egress/dial/...", "./cmd/callcell-egress"},
			banned: append([]string{"os/exec", "./internal/broker/...", "./internal/gateway/...", "./internal/credential/source/...", "./internal/store/...", "./internal/audit/...", "./internal/assembly/...",
				"./internal/config", "./internal/launcher/...", "./internal/runtime/..."}, frontEnds()...),
			why: "the process that parses what strangers send has no store, no keys and no way to start anything"},
		{rooms: []string{"./internal/egress"}, banned: []string{"net/http", "crypto/x509", "compress/gzip", "golang.org/x/net/..."}, why: "the front parses nothing that a stranger sent"},
		{rooms: []string{"./internal/credential/..."}, banned: append([]string{"./internal/broker/...", "./internal/launcher/...", "./internal/runtime/...", "./internal/store/...", "./internal/audit/..."}, frontEnds()...),
			why: "what holds secrets does not know who uses them"},
		{rooms: []string{"./internal/credential/secret", "./internal/credential/redact"}, banned: []string{"net/http"}, why: "the egress process has them too"},
		{rooms: []string{"./internal/image/fstree/...", "./internal/image/erofs/...", "./internal/image/unpack/...", "./internal/image/pack/..."},
			only: []string{"golang.org/x/sys/...", "./internal/image/fstree", "./internal/image/erofs"}, banned: []string{"net", "net/http", "os/exec"},
			why: "what parses a stranger's archive on the host has no network, starts nothing, and knows nothing of the product"},
		{rooms: []string{"./internal/image/pull/...", "./cmd/callcell-image"}, banned: append(append([]string{"./internal/launcher/...", "./internal/runtime/...", "./internal/cell/..."}, controlPlane...), frontEnds()...),
			why: "what runs in a cell, or reads a stranger's archive, carries nothing of the product"},
		{rooms: []string{"./internal/packet"}, only: []string{"golang.org/x/sys/..."}, why: "the privileged process speaks through it"},
		{rooms: []string{"./internal/launcher/conf/...", "./internal/config/guarded/..."}, only: []string{}, why: "the privileged process reads it itself"},
		{rooms: []string{"./internal/runtime/..."}, banned: append([]string{"./internal/broker/...", "./internal/gateway/...", "./internal/assembly/..."}, frontEnds()...),
			why: "isolation must not know who asked"},
		{rooms: []string{"./internal/runtime/container/..."}, banned: []string{"./internal/runtime/language/...", "./internal/runtime/userkernel/...", "./internal/runtime/microvm/..."},
			why: "a level does not lean on another one"},
		{rooms: []string{"./internal/runtime/link/..."}, banned: []string{"./internal/runtime/container/...", "./internal/runtime/userkernel/...", "./internal/egress/..."},
			why: "what all levels stand on knows none of them"},
	}
}

// mainPath are the front ends, the broker and who puts them together.
func mainPath() []wall {
	route := []string{"./internal/runtime/...", "./internal/cell/...", "./internal/credential/...", "./internal/launcher/...", "./internal/store/..."}
	const only = "the broker is the only route"
	return []wall{
		{rooms: []string{module}, banned: append(route, "./internal/cli/...", "./internal/httpapi/..."), direct: true, why: only},
		{rooms: []string{"./internal/cli/..."}, banned: route, direct: true, why: only},
		{rooms: []string{"./internal/httpapi/..."}, banned: route, direct: true, why: only},
		{rooms: []string{"./internal/mcp/..."}, banned: route, direct: true, why: only},
		{rooms: []string{"./internal/console/..."}, banned: route, direct: true, later: true, why: only},
		{rooms: []string{"./..."}, except: []string{"./internal/assembly/...", "./internal/runtime/...", "./internal/store/..."},
			banned: []string{"./internal/runtime/...", "./internal/store/..."}, direct: true,
			why: "the seam is the interface; assembly alone knows what is behind it"},
		{rooms: []string{"./internal/project/..."}, banned: append([]string{"os/exec", "net", "./internal/broker/...", "./internal/cell/...", "./internal/launcher/...", "./internal/runtime/...", "./internal/store/...", "./internal/audit/..."}, frontEnds()...),
			why: "a tree is bytes: what reads and writes it starts nothing, and reaches nothing"},
		{rooms: []string{"./internal/audit"}, banned: []string{"net", "os/exec", "database/sql", "./internal/config/..."},
			why: "what a chain proves hangs on no file, network or store"},
		{rooms: []string{"./..."}, except: []string{"./internal/assembly/...", "./internal/audit/..."}, banned: []string{"./internal/audit/anchor", "./internal/audit/keyfile"}, direct: true,
			why: "one place says where the key is and who is sent checkpoints"},
		{rooms: []string{"./internal/trace/...", "./internal/health/..."}, only: []string{}, why: "the main path has it: what it costs and can do is on its page"},
		{rooms: []string{"./internal/telemetry/...", "./internal/webhook/...", "./internal/outward/..."},
			banned: append([]string{"os/exec", "./internal/broker/...", "./internal/gateway/...", "./internal/credential/...", "./internal/store/...", "./internal/audit/...", "./internal/cell/...", "./internal/launcher/...",
				"./internal/runtime/...", "./internal/config/..."}, frontEnds()...),
			why: "what speaks to others knows what it is handed, and can get nothing else"},
		{rooms: []string{"./..."}, except: []string{"./internal/assembly/...", "./internal/telemetry/...", "./internal/webhook/...", "./internal/outward/..."},
			banned: []string{"./internal/telemetry/...", "./internal/webhook/...", "./internal/outward/..."}, direct: true, why: "one place says who is told of calls"},
		{rooms: []string{"./..."}, banned: []string{"go.opentelemetry.io/...", "google.golang.org/protobuf/...", "google.golang.org/grpc/..."}, direct: true,
			why: "their package initialisation would be part of every call's start; tests have them"},
		{rooms: []string{"./internal/blob/..."}, only: []string{"golang.org/x/sys/..."}, why: "bytes by their digest, and nothing about what they are"},
		{rooms: []string{"./internal/workspace/..."}, only: []string{"./envelope", "./internal/blob", "golang.org/x/sys/..."}, why: "versions of trees do not depend on who stores or runs them"},
		{rooms: []string{"./internal/store/..."}, banned: append([]string{"./internal/broker/...", "./internal/runtime/...", "./internal/launcher/..."}, frontEnds()...),
			why: "what is stored does not depend on who ran it"},
		{rooms: []string{"./..."}, except: []string{"./internal/cell/celltest/...", "./internal/testing/..."}, banned: []string{"./internal/cell/celltest/...", "./internal/testing/..."}, direct: true,
			why: "a fake is for tests"},
	}
}
