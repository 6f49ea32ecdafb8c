package server

import "github.com/tetherexec/tether/internal/schedule"

// afterChanges returns a job that waits for earlier changes to what it touches, but
// does not hold up later ones: a start that may have to wait for the start-up files
// of a shell must not make others wait too. It submits what does the waiting, and the
// job must be submitted next.
func (c *conn) afterChanges(job schedule.Job) schedule.Job {
	changed := make(chan struct{})
	c.scheduler.Submit(schedule.Job{Touches: job.Touches, Run: func(done func()) {
		close(changed)
		done()
	}})
	run := job.Run
	job.Touches = nil
	job.Run = func(done func()) {
		<-changed // what does the waiting is ahead in every queue
		run(done)
	}
	return job
}
