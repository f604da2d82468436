// Package sitetest looks at built sites in a real browser. Its tests need a
// browser, Node.js and two npm packages, so they are compiled only with the
// build tag "browser"; site/test/run says what is missing and runs them.
package sitetest
