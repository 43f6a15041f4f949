/** Scenarios to begin with. */

interface Preset {
  /** Never changes, because links contain it. */
  readonly id: string;
  readonly title: string;
  /** One or two sentences on the effect that it shows. */
  readonly text: string;
  /** The query of its scenario. */
  readonly query: string;
}

export const presets: readonly Preset[] = [
  {
    id: "window-edge",
    title: "A burst at the window's edge",
    text: "A fixed window of 100 per minute allows 200 requests within two seconds: 100 before the minute ends, and 100 after it. A sliding log allows 100.",
    query: "limit=100/1m+fixed-window+align=clock&traffic=bursts&size=200&within=2s&first=59s&every=5m&length=130s",
  },
  {
    id: "steady",
    title: "A steady client above its limit",
    text: "A client sends 120 requests per minute and may send 100. Strategies that count windows deny the same sixth of the requests. The buckets first use up their burst, and deny hardly any in five minutes.",
    query: "limit=100/1m&traffic=steady&rate=120/1m&length=5m",
  },
  {
    id: "random",
    title: "Random requests near the limit",
    text: "Independent requests come at 90 per minute on average, and are denied only where chance brings them close together.",
    query: "limit=100/1m&traffic=poisson&rate=90/1m&length=10m",
  },
  {
    id: "bursts",
    title: "Bursts after idle times",
    text: "A client sends 30 requests at once every half minute. A token bucket allows the burst and a steady rate after it; a queue spreads the burst out.",
    query: "limit=60/1m+token-bucket+burst=30&traffic=bursts&size=30&within=1s&first=5s&every=30s",
  },
  {
    id: "greedy-client",
    title: "One greedy client among 20",
    text: "The requests of 20 clients follow Zipf's law: the first client sends the most. Each has a limit of its own, so that only the greedy ones are denied.",
    query: "limit=60/1m&traffic=poisson&rate=600/1m&keys=20",
  },
  {
    id: "ignore-retry-after",
    title: "Clients that ignore Retry-After",
    text: "A denied request comes again a second later, whatever the response says. Most of the traffic is retries.",
    query: "limit=60/1m&traffic=steady&rate=90/1m&retry=ignore&attempts=10",
  },
  {
    id: "obey-retry-after",
    title: "Clients that obey Retry-After",
    text: "A denied request comes again when the response says. Requests that were denied together come again together.",
    query: "limit=60/1m&traffic=bursts&size=90&within=10s&first=5s&every=2m&length=4m&retry=obey",
  },
  {
    id: "jitter",
    title: "Clients that add a random time to Retry-After",
    text: "A random time of up to a minute spreads the retries out, so that fewer of them are denied again.",
    query: "limit=60/1m&traffic=bursts&size=90&within=10s&first=5s&every=2m&length=4m&retry=jitter&pause=1m",
  },
  {
    id: "two-limits",
    title: "Two limits together",
    text: "100 per minute and 10 per second: a request needs both. The shorter limit cuts bursts, the longer one bounds the sum.",
    query: "limit=100/1m&limit=10/1s+sliding-log&traffic=bursts&size=40&within=2s&first=0s&every=15s",
  },
];
