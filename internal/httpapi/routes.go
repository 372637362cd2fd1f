package httpapi

import (
	"net/http"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/gateway"
)

// endpoints are all routes there are. A key of role admin may have each; of the
// others those that name its role.
func endpoints() []endpoint {
	return slices.Concat(openEndpoints(), callEndpoints(), mcpEndpoints(), blobEndpoints(), workspaceEndpoints(), imageEndpoints(), manageEndpoints())
}

func openEndpoints() []endpoint {
	return []endpoint{
		{method: http.MethodGet, path: "/healthz", id: "health", summary: "The process answers", out: Health{}, do: healthy},
		{method: http.MethodGet, path: "/readyz", id: "ready", summary: "A call would find a store that takes writes, a launcher that answers and a level that builds its cell", out: Health{}, do: ready},
		{method: http.MethodGet, path: "/openapi.json", id: "openapi", summary: "This document", out: map[string]any{}, do: openapi},
	}
}

func callEndpoints() []endpoint {
	call := []gateway.Role{gateway.RoleCall}
	both := []gateway.Role{gateway.RoleCall, gateway.RoleRead}
	task := parameter{"Callcell-Task", "The caller's own id of the work, where the call names none; else the trace of Traceparent"}
	idem := parameter{"Idempotency-Key", "The same key and body again is the same call"}
	return []endpoint{
		{method: http.MethodPost, path: "/v1/calls", id: "runCall", roles: call, in: envelope.Call{}, out: envelope.Result{}, streams: true, forms: true, do: runCall,
			summary: "Run one call in a cell of its own: one answer; or events, with Accept: text/event-stream; or, with Prefer: respond-async, 202 at once",
			headers: []parameter{task, idem, {"Prefer", "respond-async: start it, and read it later"}}},
		{method: http.MethodGet, path: "/v1/calls", id: "listCalls", roles: call, out: CallList{}, do: listCalls,
			summary: "The key's calls that run, or are kept to be read, newest first"},
		{method: http.MethodGet, path: "/v1/calls/{id}", id: "readCall", roles: call, out: CallState{}, do: readCall, summary: "One of them, with its result when it is done"},
		{method: http.MethodGet, path: "/v1/calls/{id}/events", id: "streamCall", roles: call, streams: true, do: streamCall,
			summary: "Its events, as they come", headers: []parameter{{"Last-Event-ID", "Only those after this one"}}},
		{method: http.MethodDelete, path: "/v1/calls/{id}", id: "cancelCall", roles: call, out: CallState{}, status: http.StatusAccepted, do: cancelCall, summary: "Cancel it"},
		{method: http.MethodPost, path: "/v1/explain", id: "explainCall", roles: call, in: envelope.Call{}, out: broker.Explanation{}, do: explainCall,
			summary: "Say at which level a call would run, in what envelope, and why, without running it", headers: []parameter{task}},
		{method: http.MethodPost, path: "/v1/fetch", id: "runFetch", roles: call, in: FetchRequest{}, out: envelope.Result{}, do: runFetch,
			summary: "Get one document, as a call of its own", headers: []parameter{task, idem}},
		{method: http.MethodGet, path: "/v1/levels", id: "listLevels", roles: both, out: LevelList{}, do: listLevels, summary: "Which levels this host has, and what each enforces"},
	}
}

// blobEndpoints are for bytes that a call is to have, or has made, apart from it.
func blobEndpoints() []endpoint {
	call := []gateway.Role{gateway.RoleCall}
	const one = "/v1/blobs/{digest}"
	return []endpoint{
		{method: http.MethodPost, path: "/v1/blobs", id: "putBlob", roles: call, upload: true, out: BlobInfo{}, status: http.StatusCreated, do: putBlob,
			summary: "Keep bytes for the team; a file of a call's inputs or tree may then name them by their digest, as its blob"},
		{method: http.MethodGet, path: "/v1/blobs", id: "listBlobs", roles: call, out: BlobList{}, do: listBlobs, summary: "What the team keeps beside its workspaces",
			query: []parameter{{"after", "Only those after this digest"}}},
		{method: http.MethodGet, path: one, id: "getBlob", roles: call, file: octets, do: getBlob, summary: "The bytes of a blob of the team's"},
		{method: http.MethodHead, path: one, id: "headBlob", roles: call, file: octets, do: getBlob, summary: "Whether the team keeps it, and how large it is"},
		{method: http.MethodDelete, path: one, id: "dropBlob", roles: call, out: BlobInfo{}, do: dropBlob, summary: "Let go of it; its room is free with the next collection"},
	}
}

// workspaceEndpoints are for trees that live on. A call reads and writes one by
// naming it.
func workspaceEndpoints() []endpoint {
	call := []gateway.Role{gateway.RoleCall}
	both := []gateway.Role{gateway.RoleCall, gateway.RoleRead}
	const one = "/v1/workspaces/{name}"
	version := parameter{"version", "Of this version; the newest where it is not said"}
	return []endpoint{
		{method: http.MethodGet, path: "/v1/workspaces", id: "listWorkspaces", roles: both, out: WorkspaceList{}, do: listWorkspaces, summary: "The team's workspaces, each with its newest version"},
		{method: http.MethodGet, path: one, id: "readWorkspace", roles: both, out: WorkspaceVersions{}, do: readWorkspace, summary: "Its versions, newest first"},
		{method: http.MethodGet, path: one + "/files", id: "listFiles", roles: both, out: WorkspaceFiles{}, do: listFiles, summary: "What is in a version", query: []parameter{version}},
		{method: http.MethodGet, path: one + "/file", id: "readFile", roles: call, file: octets, do: readFile, summary: "The bytes of one file of a version",
			query: []parameter{{"name", "Of the file"}, version}},
		{method: http.MethodGet, path: one + "/diff", id: "diffVersions", roles: call, out: WorkspaceDiff{}, do: diffVersions, summary: "What makes one version of another",
			query: []parameter{{"from", "The older one; the one before the other where it is not said, 0 for nothing at all"}, {"to", "The newer one; the newest where it is not said"}}},
		{method: http.MethodGet, path: one + "/export", id: "exportVersion", roles: call, file: tarType, do: exportVersion, summary: "A version as a tar archive", query: []parameter{version}},
		{method: http.MethodDelete, path: one, id: "removeWorkspace", roles: call, out: WorkspaceRemoved{}, do: removeWorkspace, summary: "Remove it, or its old versions",
			query: []parameter{{"upTo", "Only the versions up to this one, which is not the newest"}}},
	}
}

// imageEndpoints are for the roots of cells, which all teams share: whoever calls
// sees them, and who runs this host makes and removes them.
func imageEndpoints() []endpoint {
	both, admin := []gateway.Role{gateway.RoleCall, gateway.RoleRead}, []gateway.Role{gateway.RoleAdmin}
	const job = "/v1/images/jobs/{id}"
	name := parameter{"name", "Of the image: host, oci:REF or build:NAME"}
	task := parameter{"Callcell-Task", "The caller's own id of the work"}
	return []endpoint{
		{method: http.MethodGet, path: "/v1/images", id: "listImages", roles: both, out: ImageList{}, do: listImages, summary: "The images there are"},
		{method: http.MethodGet, path: "/v1/images/inspect", id: "inspectImage", roles: both, out: ImageDetail{}, do: inspectImage, summary: "What an image is made of", query: []parameter{name}},
		{method: http.MethodDelete, path: "/v1/images", id: "removeImage", roles: admin, out: ImageRemoved{}, do: removeImage, summary: "Forget an image; its space is free with the next collection", query: []parameter{name}},
		{method: http.MethodPost, path: "/v1/images/gc", id: "collectImages", roles: admin, in: ImageGC{}, out: ImageCollection{}, do: collectImages, summary: "Remove what no image needs"},
		{method: http.MethodPost, path: "/v1/images/pull", id: "pullImage", roles: admin, in: ImagePull{}, out: ImageJob{}, status: http.StatusAccepted, do: pullImage, headers: []parameter{task},
			summary: "Begin to pull an image, in a cell that reaches its registry alone; the job goes on when the client is gone"},
		{method: http.MethodPost, path: "/v1/images/build", id: "buildImage", roles: admin, in: ImageBuild{}, out: ImageJob{}, status: http.StatusAccepted, do: buildImage, headers: []parameter{task},
			summary: "Begin to build an image, in a cell that reaches its indexes alone and runs at the level that third parties' code may have"},
		{method: http.MethodGet, path: "/v1/images/jobs", id: "listImageJobs", roles: admin, out: ImageJobList{}, do: listImageJobs, summary: "Images that are made, and the last that were"},
		{method: http.MethodGet, path: job, id: "readImageJob", roles: admin, out: ImageJob{}, do: readImageJob, summary: "One of them"},
		{method: http.MethodGet, path: job + "/events", id: "streamImageJob", roles: admin, streams: true, do: streamImageJob, summary: "How far it is, as it comes",
			headers: []parameter{{"Last-Event-ID", "Only those after this one"}}},
		{method: http.MethodDelete, path: job, id: "cancelImageJob", roles: admin, out: ImageJob{}, status: http.StatusAccepted, do: cancelImageJob, summary: "Cancel it"},
	}
}

func manageEndpoints() []endpoint {
	read, admin := []gateway.Role{gateway.RoleRead}, []gateway.Role{gateway.RoleAdmin}
	both := []gateway.Role{gateway.RoleCall, gateway.RoleRead}
	team := parameter{"team", "Only of this team; a key that is no admin's sees its own alone"}
	return []endpoint{
		{method: http.MethodGet, path: "/v1/audit", id: "listRows", roles: both, out: RowList{}, do: listRows, summary: "Rows of calls, newest first: a key of role call sees its own calls', one of role read its team's",
			query: []parameter{{"task", "Only of this task"}, {"tool", "Only of this tool"}, {"key", "Only of this key"}, {"caller", "Only of this caller, as a row has it; not beside key"}, team,
				{"host", "Only those that tried to reach this host"},
				{"level", "Only at this level"}, {"outcome", "Only those that ended so"}, {"reason", "Only those that were refused so"}, {"open", "true: only those that have not ended"},
				{"since", "Only those from this time on: RFC 3339, a day of UTC (2026-11-30), or how long ago (2h)"}, {"until", "Only those before this time, written as since"},
				{"before", "Only those older than this id"}, {"limit", "At most so many, up to 1000; 100 where it is not said"}}},
		{method: http.MethodGet, path: "/v1/audit/{id}", id: "readRow", roles: both, out: audit.Row{}, do: readRow, summary: "One row in full"},
		{method: http.MethodGet, path: "/v1/usage", id: "listUsage", roles: read, out: UsageList{}, do: listUsage, summary: "What was used, by month, team and key",
			query: []parameter{team, {"from", "From this month on: 2026-11"}, {"to", "Up to this month"}}},
		{method: http.MethodGet, path: "/v1/keys", id: "listKeys", roles: admin, out: KeyList{}, do: listKeys, summary: "Keys, oldest first", query: []parameter{team}},
		{method: http.MethodPost, path: "/v1/keys", id: "createKey", roles: admin, in: NewKey{}, out: KeySecret{}, status: http.StatusCreated, do: createKey, summary: "Make a key; its secret is shown this once"},
		{method: http.MethodPost, path: "/v1/keys/{id}/rotate", id: "rotateKey", roles: admin, in: Rotation{}, out: KeySecret{}, ends: true, do: rotateKey, summary: "Give a key another secret"},
		{method: http.MethodDelete, path: "/v1/keys/{id}", id: "revokeKey", roles: admin, out: gateway.Key{}, ends: true, do: revokeKey, summary: "End a key; its calls that run are cancelled"},
		{method: http.MethodGet, path: "/v1/teams", id: "listTeams", roles: admin, out: TeamList{}, do: listTeams, summary: "Teams by name"},
		{method: http.MethodPost, path: "/v1/teams", id: "createTeam", roles: admin, in: NewTeam{}, out: gateway.Team{}, status: http.StatusCreated, do: createTeam, summary: "Add a team"},
		{method: http.MethodPatch, path: "/v1/teams/{name}", id: "setTeam", roles: admin, in: TeamSettings{}, out: gateway.Team{}, do: setTeam, summary: "Change a team"},
	}
}
