package cli

// Fix is what to do about a condition reason; empty: nobody has to do anything.
func Fix(reason string) string { return reasonText(reason) }
