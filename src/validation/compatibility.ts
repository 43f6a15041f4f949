/** The compatibility date that the platform must have for the limiter. */
import { type ConfigProblem, isRecord } from "./problems.ts";

/** Enables `FinalizationRegistry`. The latest of all features that the code needs; calls of objects need 2024-04-03. */
export const leastCompatibilityDate = "2025-05-05";

/** One problem if the Worker has an earlier date, which the features of the platform show. */
export function compatibilityProblems(): ConfigProblem[] {
  const platform: unknown = Reflect.get(globalThis, "Cloudflare");
  const flags = isRecord(platform) ? platform["compatibilityFlags"] : undefined;
  const hasCalls = !isRecord(flags) || flags["rpc"] !== false;
  if (hasCalls && typeof FinalizationRegistry === "function") return [];
  const accepted = `"${leastCompatibilityDate}" or later in wrangler.toml`;
  return [{ variable: "compatibility_date", field: "", value: "an earlier date", accepted }];
}
