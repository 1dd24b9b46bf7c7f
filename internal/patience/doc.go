// Package patience turns a client configuration into one whose lists and watches
// wait for an API server that is away, instead of failing.
//
// client-go's reflectors double their pause after each failure, up to 30 s with
// jitter, and offer no way to change that where an informer makes them. After an outage of
// ten seconds they would sleep on for as long again while the API server is back.
//
// Polite is for all requests: none comes before the time that an API server told it.
package patience
