// Records the bodies beside it, as client_golang v1.23.2 serves them, for native_histogram_test.cpp:
//
//	go mod init record && go get github.com/prometheus/client_golang@v1.23.2 && go mod tidy && go run record.go
package main

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," +
	"text/plain;version=0.0.4;q=0.3,*/*;q=0.1"

func main() {
	registry := prometheus.NewRegistry()
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "rt_seconds",
		Help:                            "Response time.",
		Buckets:                         prometheus.DefBuckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  40,
		NativeHistogramMaxZeroThreshold: 0.002,
	}, []string{"path"})
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "classic_seconds", Help: "Response time."})
	requests := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})
	registry.MustRegister(latency, classic, requests)

	observe := func(path string, value float64) {
		latency.WithLabelValues(path).Observe(value)
		classic.Observe(value)
		requests.Inc()
	}
	for i := 0; i < 1000; i++ {
		observe("/a", 2.5)
	}
	observe("/b", 0)
	latency.WithLabelValues("/a").(prometheus.ExemplarObserver).ObserveWithExemplar(2.5, prometheus.Labels{"trace": "7"})
	record(registry, "before.pb")

	// From 1 to 148 ms. They have more than 40 buckets: the zero bucket is widened, then the resolution halved.
	for i := 0; i < 10000; i++ {
		observe("/a", 0.001*math.Pow(1.0005, float64(i)))
	}
	observe("/b", 1)
	record(registry, "after.pb")
}

func record(registry *prometheus.Registry, name string) {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, request)
	println(answer.Header().Get("Content-Type"))
	if err := os.WriteFile(name, answer.Body.Bytes(), 0o644); err != nil {
		panic(err)
	}
}
