/** A minimal wrangler.toml with these lines under `[vars]` and these required secrets. `index.ts` is its entry point. */
export const wranglerToml = (
  vars: readonly string[],
  requiredSecrets: readonly string[] = ["KEY_SECRET", "CHECK_TOKENS"],
): string => `
name = "headgate"
main = "index.ts"
compatibility_date = "2026-11-01"
[vars]
${vars.join("\n")}
[secrets]
required = ${JSON.stringify(requiredSecrets)}
[[durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["RateLimiter"]
`;
