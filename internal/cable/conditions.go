package cable

import (
	"math/rand/v2"
	"sync"
	"time"
)

// conditions are how the cable treats bytes at the moment: frozen or not, how late and how fast. They also have the
// random numbers for jitter and Chance.
type conditions struct {
	mu      sync.Mutex
	frozen  [2]chan struct{} // by direction; closed unless the direction is frozen
	latency time.Duration
	jitter  time.Duration
	rate    int64 // bytes per second; 0: no limit
	random  *rand.Rand
}

func newConditions(seed uint64) *conditions {
	c := &conditions{random: rand.New(rand.NewPCG(seed, 0))}
	for d := range c.frozen {
		c.frozen[d] = make(chan struct{})
		close(c.frozen[d])
	}
	return c
}

// freeze reports whether one of the directions was not frozen.
func (c *conditions) freeze(directions []Direction) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range directions {
		if isClosed(c.frozen[d]) {
			c.frozen[d] = make(chan struct{})
			changed = true
		}
	}
	return changed
}

// thaw reports whether one of the directions was frozen.
func (c *conditions) thaw(directions []Direction) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range directions {
		if !isClosed(c.frozen[d]) {
			close(c.frozen[d])
			changed = true
		}
	}
	return changed
}

// thawed is closed when a direction is not frozen.
func (c *conditions) thawed(d Direction) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen[d]
}

func (c *conditions) setLatency(latency, jitter time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency, c.jitter = latency, jitter
}

// lag is the current delay of a message.
func (c *conditions) lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	latency := c.latency
	if c.jitter > 0 {
		latency += time.Duration((2*c.random.Float64() - 1) * float64(c.jitter))
	}
	return max(latency, 0)
}

func (c *conditions) setRate(bytesPerSecond int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = max(bytesPerSecond, 0)
}

func (c *conditions) currentRate() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rate
}

// roll returns a random number, at least 0 and below 1.
func (c *conditions) roll() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}
