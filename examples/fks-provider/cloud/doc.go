// Package cloud is the Foo Kubernetes Service: control planes that answer as API servers do, over TLS and with a token, and the
// pieces of infrastructure that the service doesn't bring. It runs in this process, and what there is stands in a file, so that
// a process that starts again serves the same control planes with the same certificates.
package cloud
