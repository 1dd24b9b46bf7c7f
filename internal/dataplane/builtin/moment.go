package builtin

import "time"

// began anchors moments, and never changes.
var began = time.Now()

// moment is now, in nanoseconds since this process began. It doesn't follow the host's clock: where that is set, no
// connection's quiet becomes longer or shorter.
func moment() int64 { return int64(time.Since(began)) }
