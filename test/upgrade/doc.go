// Package upgrade tests that every part can be restarted, upgraded and taken back by one version, in any order, without a client
// noticing; and that a proxy that leaves holds up nobody.
//
//	baseline: a commit ─▶ the binary before ─┐
//	this tree          ─▶ the binary now    ─┴▶ a fleet whose parts run the one or the other ─▶ judged traffic
//
// The version before is the commit that the file baseline names (docs/upgrading.md says which that is);
// FAIRLEAD_UPGRADE_FROM names another.
package upgrade
