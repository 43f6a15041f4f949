/** A seeded generator of random numbers: mulberry32. */
export { seededRandom as randomFrom } from "../src/advisor/replay/clients.ts";

/** Returns a number of at least 0 and below 1 at each call. */
export type Random = () => number;
