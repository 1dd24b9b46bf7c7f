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
	// IncompleteView: a proxy serves what its first lists hold before all are there.
	IncompleteView Bug = "a proxy serves by a view that isn't complete"
	// LostIsWritten: a proxy takes a report for written whose answer is lost.
	LostIsWritten Bug = "a proxy takes a report for written whose answer is lost"
	// SameBoot: a proxy's processes all have the same boot.
	SameBoot Bug = "all processes of a proxy have the same boot"

	// MemoryNotFiled: the file doesn't say by what the hub is known.
	MemoryNotFiled Bug = "the file doesn't say by what the hub is known"
	// ChangeNotSaid: a proxy doesn't say that the hub has changed.
	ChangeNotSaid Bug = "a proxy doesn't say that the hub has changed"
	// ServesNotSaid: a frozen proxy doesn't say what it serves against the ledger.
	ServesNotSaid Bug = "a frozen proxy doesn't say what it serves against the ledger"
	// ThawedAtOnce: a proxy whose hub has changed follows the new one as soon as it has listed it.
	ThawedAtOnce Bug = "a proxy follows a hub that changed as soon as it has listed it"
	// NothingAdopted: a manager adopts nothing of what frozen proxies serve.
	NothingAdopted Bug = "a manager adopts nothing of what frozen proxies serve"
	// FrozenGranted: a manager grants and frees though proxies say that the hub has changed.
	FrozenGranted Bug = "a manager grants and frees while proxies are frozen"

	// NoPreconditions: Addresses are deleted whatever their UID and version, and deletes arrive twice.
	NoPreconditions Bug = "Addresses are deleted whatever their UID and version"
	// SettledAtOnce: a port of a shared address is granted before proxies have applied that it was given up.
	SettledAtOnce Bug = "a port of a shared address is granted before proxies gave it up"
	// SilentLetGo: a silent proxy counts as gone.
	SilentLetGo Bug = "a silent proxy counts as gone"
	// OldCaches: a manager goes on with its caches in a hub that has changed.
	OldCaches Bug = "a manager goes on with its caches in a hub that has changed"
	// ErrorsForgotten: what failed is not tried again.
	ErrorsForgotten Bug = "what failed is not tried again"
)
