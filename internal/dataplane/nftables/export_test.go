package nftables

// Compare has the table compared with what is believed of it, as it is once a minute when others change rules.
func (d *Dataplane) Compare() error {
	d.mu.Lock()
	commits := d.guarded.commits
	d.mu.Unlock()
	return d.compare(commits)
}
