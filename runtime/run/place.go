package run

// Place is a folder of the user's own that a run works in, in place of the
// session's workspace, and what else of this machine its commands see. Only the
// command line makes one, for the command that was typed: no request, agent or
// prompt can name a path of the machine.
//
// The folder is never deleted, nor are its owner and rights changed. In the
// sandbox everything stands at its own path.
type Place struct {
	Folder string   `json:"folder"`           // absolute, without links
	Mounts []Mount  `json:"mounts,omitempty"` // read-only
	Path   []string `json:"path,omitempty"`   // folders before the others in PATH
	// Devices are device files, such as those of a GPU.
	Devices []string `json:"devices,omitempty"`
}

// Mount is a file or folder of the machine and where a command sees it; both
// absolute.
type Mount struct {
	From string `json:"from"`
	At   string `json:"at"`
}
