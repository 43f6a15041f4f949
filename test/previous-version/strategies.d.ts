/** The engine of the previous version, with the methods whose signatures have not changed. */
import type { Limit, LimitDefaults, LimitInput, Meter } from "../../src/strategies/index.ts";

export declare function parseLimits(
  input: string | LimitInput | readonly (string | LimitInput)[],
  defaults?: LimitDefaults,
): Limit[];

export declare function createMeter(
  limits: readonly Limit[],
  stored?: unknown,
): Pick<Meter, "consume" | "look" | "snapshot" | "idleAtMs">;
