/** The compatibility date that the platform must have for the limiter. */
import { isRecord } from "./json.ts";
import { type ConfigProblem } from "./problems.ts";

/** Enables `FinalizationRegistry`, the latest of all features that the code needs. Calls of objects need 2024-04-03. */
export const leastCompatibilityDate = "2025-05-05";

export const acceptedDate = `"${leastCompatibilityDate}" or later in wrangler.toml`;

/** Whether the Worker has the latest of the required features. */
export const hasFeatures = (): boolean => typeof FinalizationRegistry === "function";

/**
 * One problem if the Worker's compatibility date is too early. A Worker that exports the objects does not start with
 * such a date, but one whose objects are in another Worker does.
 */
export function compatibilityProblems(): ConfigProblem[] {
  const platform: unknown = Reflect.get(globalThis, "Cloudflare");
  const flags = isRecord(platform) ? platform["compatibilityFlags"] : undefined;
  const hasCalls = !isRecord(flags) || flags["rpc"] !== false;
  if (hasCalls && hasFeatures()) return [];
  const [variable, value] = ["compatibility_date", "an earlier date"];
  return [{ variable, field: "", value, accepted: acceptedDate }];
}
