package core

// Config is the configuration of an elector. docs/abi.md describes the fields and their defaults.
type Config struct {
	Namespace            string       `json:"namespace"`
	LeaseName            string       `json:"leaseName"`
	Identity             string       `json:"identity"`
	Random               string       `json:"random"`
	Place                *Place       `json:"place,omitempty"`
	Coordinated          *Coordinated `json:"coordinated,omitempty"`
	Direct               *Direct      `json:"direct,omitempty"`
	LeaseDurationSeconds int64        `json:"leaseDurationSeconds"`
	RenewDeadlineUs      int64        `json:"renewDeadlineUs"`
	RetryPeriodUs        int64        `json:"retryPeriodUs"`
	RequestTimeoutUs     int64        `json:"requestTimeoutUs,omitempty"`
	StopGraceUs          int64        `json:"stopGraceUs"`
	FailOpen             any          `json:"failOpen,omitempty"`
	KeepOnStop           bool         `json:"keepOnStop,omitempty"`
}

// Place is where a process runs.
type Place struct {
	PodUID           string `json:"podUid"`
	Container        string `json:"container"`
	NetworkNamespace string `json:"networkNamespace"`
}

// Coordinated configures coordinated mode.
type Coordinated struct {
	BinaryVersion    string `json:"binaryVersion"`
	EmulationVersion string `json:"emulationVersion,omitempty"`
	Strategy         string `json:"strategy,omitempty"`
	Priority         *int32 `json:"priority,omitempty"`
	Pod              *Pod   `json:"pod,omitempty"`
	Fallback         bool   `json:"fallback"`
}

// Pod is the owner of a candidate.
type Pod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Direct configures direct mode.
type Direct struct {
	Key *int64 `json:"key,string"`
}

// Created is the answer to [Instance.Create].
type Created struct {
	Elector        uint32   `json:"elector"`
	Session        string   `json:"session"`
	Lock           string   `json:"lock"`
	Warnings       []string `json:"warnings"`
	LongestWriteUs int64    `json:"longestWriteUs"`
	Error          string   `json:"error"`
}

// Decision is the part that this host uses of the answer to [Instance.Step]. It puts the fields in force in this order.
type Decision struct {
	Leading      *Leading      `json:"leading"`
	Range        *Range        `json:"range"`
	StopWork     bool          `json:"stopWork"`
	AbortWork    bool          `json:"abortWork"`
	Requests     []Request     `json:"requests"`
	Cancel       []uint64      `json:"cancel"`
	Holder       *Holder       `json:"holder"`
	HolderChange *HolderChange `json:"holderChange"`
	LeaseUID     string        `json:"leaseUid"`
	Obstacle     *Obstacle     `json:"obstacle"`
	Renewal      *Renewal      `json:"renewal"`
	DeadlineUs   *int64        `json:"deadlineUs"`
	Notes        []Note        `json:"notes"`
	Finished     bool          `json:"finished"`
	Error        string        `json:"error"`
}

// Leading is the term that this process leads.
type Leading struct {
	Number       uint32 `json:"number"`
	Token        uint64 `json:"token,string"`
	ValidUntilUs int64  `json:"validUntilUs"`
}

// Range is the wall-clock time that the last term owns.
type Range struct {
	StartUs          int64  `json:"startUs"`
	EndUs            int64  `json:"endUs"`
	FailsOpenUntilUs *int64 `json:"failsOpenUntilUs"`
}

// Request is a request to the API server.
type Request struct {
	ID          uint64 `json:"id"`
	Purpose     string `json:"purpose"`
	Method      string `json:"method"`
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
	UntilUs     int64  `json:"untilUs"`
	Stream      bool   `json:"stream"`
}

// Holder is who holds the Lease.
type Holder struct {
	Identity    string `json:"identity"`
	ExpiresAtUs *int64 `json:"expiresAtUs"`
}

// HolderChange is a change of the holder, to this one.
type HolderChange struct {
	Holder string `json:"holder"`
}

// Obstacle keeps an elector from leading until a person acts.
type Obstacle struct {
	LeaseName string `json:"leaseName"`
	Text      string `json:"text"`
}

// Renewal is the end of a renewal.
type Renewal struct {
	TookUs    int64 `json:"tookUs"`
	Succeeded bool  `json:"succeeded"`
}

// Note is a line for the log.
type Note struct {
	Level  string         `json:"level"`
	Code   string         `json:"code"`
	Text   string         `json:"text"`
	Fields map[string]any `json:"fields"`
}

// Class is what a request does.
type Class uint32

const (
	// Reads means that the request only reads.
	Reads Class = iota
	// ChangesNothing means that the request is a dry run, or a review of access or of a token.
	ChangesNothing
	// Write means that the request changes something.
	Write
	// Elsewhere means that the request has its effect elsewhere, and may last: exec, attach, portforward, proxy, an upgrade.
	Elsewhere
)

// Event is what an elector observes. The zero Event means that nothing has happened.
type Event struct {
	Event      string  `json:"event,omitempty"`
	ID         uint64  `json:"id,omitempty"`
	Status     int     `json:"status,omitempty"`
	RetryAfter string  `json:"retryAfter,omitempty"`
	Sent       *bool   `json:"sent,omitempty"`
	Text       string  `json:"text,omitempty"`
	Key        *string `json:"key,omitempty"`
	Cause      string  `json:"cause,omitempty"`
}
