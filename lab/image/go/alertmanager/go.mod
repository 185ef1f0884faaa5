// Alertmanager, without its web pages.
module lab.invalid/alertmanager

go 1.26

require github.com/prometheus/alertmanager v0.34.0
