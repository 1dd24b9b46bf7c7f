// Package webhook has a provider be four calls over HTTP, for technologies whose client isn't written in Go, or may not run
// where the controller does. Client is a provider that makes them; Handler answers them with a provider.
//
//	POST <url>/describe   {"id": "…", "owner": "…", "spec": {…}}                          ▶ {"state": {…}}
//	POST <url>/ensure     {…, "wanted": {"name": "…", "endpoint": {…}, "ports": […], …}}  ▶ {"state": {…}}
//	POST <url>/members    {…, "members": [{"name": "…", "address": "…", "weight": 1}]}    ▶ {}
//	POST <url>/delete     {…}                                                             ▶ {}
//
// They mean what the methods of provider.Provider mean, and their fields what its types' fields do; spec is that of the
// provider object. Success is status 200. A failure is any other status, with {"error": {"kind": "…", "message": "…"}}: kind NotFound
// where the load balancer was seen to be absent, Refused where repeating won't mend it, anything else where it may. An
// answer that isn't of this form, such as a proxy's own 404, is an error that is tried again: it says nothing of the load balancer.
//
// Credentials are not sent: who answers has its own.
package webhook
