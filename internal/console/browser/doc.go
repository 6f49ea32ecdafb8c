// Package browser tests the console's page in a real browser: Chromium, headless. One browser serves all tests, with a context
// of its own (cookies, storage) for each.
package browser
