package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// rounds runs every peer once per round, in a new random order each time, and
// returns the samples by peer.
func rounds(ctx context.Context, o Options, peers []peer, measure func(context.Context, []string) (sample, error)) ([][]sample, error) {
	order := rand.New(rand.NewPCG(o.Seed, 0))
	samples := make([][]sample, len(peers))
	for round := -warmups; round < o.Rounds; round++ {
		for _, i := range order.Perm(len(peers)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s, err := measure(ctx, peers[i].argv)
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", peers[i].name, err)
			}
			if round >= 0 {
				samples[i] = append(samples[i], s)
			}
		}
	}
	return samples, nil
}

// Summary of samples, in milliseconds.
type Summary struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

func summarise(values []float64) Summary {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Summary{}
	}
	return Summary{
		Min:    sorted[0],
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		P90:    sorted[(n*9+9)/10-1], // nearest rank
	}
}

// summarise fills the results from the samples.
func (r *Report) summarise(peers []peer, samples [][]sample) {
	for i, p := range peers {
		wall, cpu := make([]float64, 0, len(samples[i])), make([]float64, 0, len(samples[i]))
		for _, s := range samples[i] {
			wall, cpu = append(wall, milliseconds(s.wall)), append(cpu, milliseconds(s.cpu))
		}
		r.Peers = append(r.Peers, Result{Peer: p.name, Argv: p.argv, WallMS: summarise(wall), CPUMS: summarise(cpu), SamplesMS: wall})
	}
	at := slices.IndexFunc(r.Peers, func(p Result) bool { return p.Peer == baselinePeer })
	if at < 0 {
		return
	}
	r.Baseline = baselinePeer
	base := r.Peers[at].WallMS
	for i := range r.Peers {
		r.Peers[i].RatioMin = r.Peers[i].WallMS.Min / base.Min
		r.Peers[i].RatioMedian = r.Peers[i].WallMS.Median / base.Median
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
