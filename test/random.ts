/** A seeded generator of random numbers: mulberry32. */
export { seededRandom as randomFrom } from "../src/advisor/replay/clients.ts";

/** Each call returns a number of at least 0 and below 1. */
export type Random = () => number;
