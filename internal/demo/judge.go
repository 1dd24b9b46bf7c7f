package demo

import (
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/traffic"
)

// A window in which this machine could not send as much as it must proves nothing. That is no error of the step, which goes on to its
// end and leaves all as it found it: it is noted, and the step is told again. What failed, however little was sent, has failed.

// nothingFailed judges reports in which nothing may fail.
func (s *story) nothingFailed(reports ...traffic.Report) error {
	errs := []error{}
	for i := range reports {
		errs = append(errs, verdict(reports[i].Wrong()))
		s.proves(&reports[i])
	}
	return errors.Join(errs...)
}

// onlyBetween judges a report in which requests may fail between two moments, and some must.
func (s *story) onlyBetween(r *traffic.Report, from, to time.Time) error {
	if why := r.FailedOutside(from, to); why != "" {
		return errors.New(why)
	}
	if !s.proves(r) {
		return nil
	}
	return verdict(r.OnlyBetween(from, to))
}

// eachAnswers is an error if one of the Pods answered nothing in a window that proves anything.
func eachAnswers(r *traffic.Report, pods []string) error {
	for _, pod := range pods {
		if r.Pods[pod] == 0 && r.Busy() == "" {
			return fmt.Errorf("pod %s got none of %d requests", pod, r.Sent)
		}
	}
	return nil
}

// proves tells whether a report proves anything, and notes why not.
func (s *story) proves(r *traffic.Report) bool {
	why := r.Busy()
	if why != "" {
		s.busy = append(s.busy, why)
	}
	return why == ""
}

// verdict makes an error of why a claim doesn't hold.
func verdict(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}
