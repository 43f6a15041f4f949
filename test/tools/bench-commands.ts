/**
 * The measurements that `npm run bench -- <name>` can run. Each has a file of its name, and one line in the list of
 * names.
 */
export const benchCommands: Readonly<Record<string, string>> = {
  strategies: "Decisions per second of every strategy and of two npm packages.",
  replay: "A million arrivals replayed under 27 sets of limits. Fails above 10 s.",
  advisor: "How often the advisor's intervals hold and its goals are met, by kind of traffic.",
  accuracy: "Over- and under-admission of every strategy, compared with an exact sliding log.",
  http: "Requests per second and latency on workerd, beside other rate limiters.",
  cost: "The price of a million decisions on Cloudflare, by shape of traffic.",
  scale: "Calls, rows and price of up to a million requests per second, from a model.",
  simulate: "Over- and under-admission of one key, by consistency and number of isolates.",
  shares: "Denied requests of keys that share one limit, by how long a key counts as active.",
  "first-seen": "New keys per second, with one object per key and with shards.",
  overhead: "Time that statistics add to a decision. Fails at 1 µs or more.",
  memory: "Heap of one isolate with 32 busy shards. Fails above 96 MB.",
  console: "The console in Chromium: first view, long tasks, memory. Fails when a target is missed.",
  "start-up": "Processor time of Headgate's start and first request, compared with an empty Worker.",
  propagation: "Time until five isolates follow changed rules. Fails when a target is missed.",
  rules: "Calls of the control plane with 10,000 rules. Fails if a page takes 100 ms.",
  crash: "Kills workerd under load. Fails if more units are lost than the durability allows.",
  load: "Concurrent requests. Fails unless each window admits exactly the limit.",
  disconnects: "Longest waits beside clients that disconnect, with joined and with separate calls.",
  trees: "Requests per second under a tree of three levels, one level and three policies.",
  fuzz: "Random requests. Fails on an error of Headgate or on quota beyond the limits.",
  mutation: "Mutation tests with Stryker: changes the source and expects a test to fail.",
};
