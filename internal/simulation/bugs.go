package simulation

// Bug is something that the played part does wrong, on purpose.
type Bug string

const (
	// None: all is done as it should be.
	None Bug = ""

	// SpeaksBeforeApply: a proxy says that it is through what it has yet to apply.
	SpeaksBeforeApply Bug = "a proxy says that it is through what it has yet to apply"
	// StatusFirst: a proxy writes its status before its reports.
	StatusFirst Bug = "a proxy writes its status before its reports"
	// OpenConnectionsForgotten: a proxy calls an address gone while connections are open.
	OpenConnectionsForgotten Bug = "a proxy calls an address gone while connections are open"
	// FileNotSynced: a proxy tells of a removal before its file is on disk.
	FileNotSynced Bug = "a proxy tells of a removal before its file is on disk"
	// VersionsRunAhead: a proxy takes an event for word of all that happened.
	VersionsRunAhead Bug = "a proxy takes an event for word of all that happened"
	// IncompleteView: a proxy serves what its first lists hold before all are there.
	IncompleteView Bug = "a proxy serves by a view that isn't complete"
	// LostIsWritten: a proxy takes a report for written whose answer is lost.
	LostIsWritten Bug = "a proxy takes a report for written whose answer is lost"
	// HeldNotSaid: a proxy doesn't say which namespaces' reports it can't write.
	HeldNotSaid Bug = "a proxy doesn't say which reports it can't write"
	// SameBoot: a proxy's processes all have the same boot.
	SameBoot Bug = "all processes of a proxy have the same boot"

	// ReopenedUnconfirmed: a watch that goes on where it ended is believed without a question.
	ReopenedUnconfirmed Bug = "a watch that was opened again is believed without a question"
	// MemoryNotFiled: the file doesn't say by what the hub is known.
	MemoryNotFiled Bug = "the file doesn't say by what the hub is known"
	// FrozenNotHeld: a proxy doesn't say in which namespaces it serves something else than the hub says.
	FrozenNotHeld Bug = "a proxy doesn't name the namespaces that are frozen"
	// ChangeNotSaid: a proxy doesn't say that the hub has changed.
	ChangeNotSaid Bug = "a proxy doesn't say that the hub has changed"
	// ThroughKept: a frozen proxy goes on saying how far it had come.
	ThroughKept Bug = "a frozen proxy goes on saying how far it had come"
	// ServesNotSaid: a frozen proxy doesn't say what it serves against the ledger.
	ServesNotSaid Bug = "a frozen proxy doesn't say what it serves against the ledger"
	// MissingNotSaid: a frozen proxy doesn't say what it serves in namespaces that the hub lacks.
	MissingNotSaid Bug = "a frozen proxy doesn't say what it serves in namespaces that the hub lacks"
	// ThawedAtOnce: a proxy whose hub has changed follows the new one as soon as it has listed it.
	ThawedAtOnce Bug = "a proxy follows a hub that changed as soon as it has listed it"
	// NothingAdopted: a manager adopts nothing of what frozen proxies serve.
	NothingAdopted Bug = "a manager adopts nothing of what frozen proxies serve"
	// FrozenGranted: a manager grants and frees though proxies say that the hub has changed.
	FrozenGranted Bug = "a manager grants and frees while proxies are frozen"
	// LeaseBeforeWord: a proxy renews its Lease before it says that the hub has changed.
	LeaseBeforeWord Bug = "a Lease is renewed before the proxy says that the hub has changed"

	// NoVersionOnUpdate: Addresses are updated whatever their version.
	NoVersionOnUpdate Bug = "Addresses are updated whatever their version"
	// NoPreconditions: Addresses are deleted whatever their UID and version.
	NoPreconditions Bug = "Addresses are deleted whatever their UID and version"
	// ReportsNotAwaited: a manager believes a status before the reports that belong to it have arrived.
	ReportsNotAwaited Bug = "a manager believes a status before the reports that belong to it"
	// SettledAtOnce: a port of a shared address is granted before proxies have applied that it was given up.
	SettledAtOnce Bug = "a port of a shared address is granted before proxies gave it up"
	// SilentByCache: a manager takes a proxy for silent by its cache.
	SilentByCache Bug = "a manager takes a proxy for silent by its cache"
	// SilentLetGo: a silent proxy counts as gone.
	SilentLetGo Bug = "a silent proxy counts as gone"
	// OldLeaderWrites: a manager writes though it doesn't know any more that it leads.
	OldLeaderWrites Bug = "a manager writes that doesn't know that it leads"
	// OldCaches: a manager goes on with its caches in a hub that has changed.
	OldCaches Bug = "a manager goes on with its caches in a hub that has changed"
	// OneProxyAsked: a manager asks one proxy alone whether a Machine's hook may go.
	OneProxyAsked Bug = "a hook is lifted when one proxy of two has said that it may"
	// OpenToMachinesForgotten: a manager takes a Machine for removed to which connections are open.
	OpenToMachinesForgotten Bug = "a hook is lifted while connections are open"
	// FrozenUnheard: a manager doesn't hear that proxies serve on what they had before the hub changed.
	FrozenUnheard Bug = "a manager doesn't hear that proxies are frozen"
	// OldWordCounts: what a proxy said of a Machine before its TargetGroup changed counts for what is there now.
	OldWordCounts Bug = "a report from before a drain counts for it"
	// ChecksIgnored: a proxy sends to members that fail its check.
	ChecksIgnored Bug = "a proxy sends to members that fail its check"
	// FailuresNotReported: a proxy doesn't say which members fail its check.
	FailuresNotReported Bug = "a proxy doesn't say which members fail its check"
	// ErrorsForgotten: what failed is not tried again.
	ErrorsForgotten Bug = "what failed is not tried again"
)
