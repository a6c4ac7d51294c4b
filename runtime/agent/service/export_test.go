package service

import "time"

// At gives a driver with another clock.
func (d Driver) At(now func() time.Time) Driver {
	d.now = now
	return d
}
