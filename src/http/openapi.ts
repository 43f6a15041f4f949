/** The OpenAPI documents. They are static assets of the Worker, because they would take a fifth of its bundle. */
import type { Failure } from "./wire/problems.ts";

/** The binding `ASSETS`. */
export type Assets = Pick<Fetcher, "fetch">;

/** The members of a document that depend on the deployment. */
export interface OpenApi {
  readonly servers: readonly object[];
  readonly security: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

/**
 * The document of an API with its path in this deployment.
 * @param assets undefined when the binding is missing
 */
export async function openApiDocument(
  assets: Assets | undefined,
  api: "check" | "admin",
  url: string,
): Promise<OpenApi | Failure> {
  const response = await assets?.fetch(`https://assets.invalid/openapi/${api}.json`);
  // The assets of another site may answer every path with its page.
  if (response?.status === 200 && response.headers.get("Content-Type")?.startsWith("application/json") === true) {
    const document = await response.json<OpenApi>();
    return { ...document, servers: document.servers.map((server) => ({ ...server, url })) };
  }
  await response?.body?.cancel();
  return { kind: "openapi-missing" };
}
