// Package hostaddr puts addresses on this host's loopback interface and takes
// them away again. The kernel keeps beside each that Fairlead put it
// (IFA_PROTO, as `ip address` prints it) and which of those that may do so on
// one host (as its metric, which says nothing for an address of one host). So
// an address of somebody else is left alone, and one that a former process left
// behind is known again. It needs CAP_NET_ADMIN to change anything, and nothing to look.
package hostaddr
