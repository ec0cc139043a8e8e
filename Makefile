# See README.md.
