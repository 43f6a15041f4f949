/**
 * A stand-in for those parts of Cloudflare's API that `wrangler deploy` and `wrangler secret list` call, for one
 * Worker.
 */
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

interface Binding {
  readonly type: string;
  readonly name: string;
  readonly text?: string;
}

export interface Upload {
  readonly bindings: readonly Binding[];
  /** The code of the Worker. */
  readonly code: string;
}

export interface CloudflareApi {
  /** The environment for a wrangler process that uses this server instead of Cloudflare's. */
  readonly environment: Readonly<Record<string, string>>;
  /** The deployments, in order. */
  readonly uploads: readonly Upload[];
  /** Creates the Worker with these secrets, as the form in the dashboard does. */
  readonly setSecrets: (names: readonly string[]) => void;
  readonly close: () => void;
}

/** https://developers.cloudflare.com/api/resources/workers/ */
const workerNotFound = 10_007;

export async function startCloudflareApi(): Promise<CloudflareApi> {
  const uploads: Upload[] = [];
  const secrets = new Set<string>();
  let exists = false;
  const answer = async (method: string, path: string, body: Request): Promise<unknown> => {
    if (path.endsWith("/assets-upload-session")) return { jwt: "assets", buckets: [] };
    if (path.endsWith("/subdomain")) return { subdomain: "acme", enabled: true };
    if (method === "PUT" || (method === "POST" && path.endsWith("/versions"))) {
      const upload = await readUpload(body);
      uploads.push(upload);
      exists = true;
      for (const { type, name } of upload.bindings) if (type === "secret_text") secrets.add(name);
      const resources = { script: { etag: "an-etag" } };
      return { id: "an-id", deployment_id: "a-deployment", startup_time_ms: 1, resources };
    }
    if (!exists) return null;
    if (path.endsWith("/secrets")) return [...secrets].map((name) => ({ name, type: "secret_text" }));
    if (path.includes("/services/")) {
      const script = { tag: "a-tag", last_deployed_from: "wrangler", migration_tag: "v2" };
      return { default_environment: { environment: "production", script } };
    }
    if (path.includes("/workers/workers/")) {
      return { subdomain: { enabled: true, previews_enabled: true } };
    }
    return path.endsWith("/deployments") ? { deployments: [] } : {};
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { method = "GET", url = "/" } = request;
      const path = new URL(url, "http://api.invalid").pathname;
      const type = request.headers["content-type"] ?? "";
      const data = new Uint8Array(await buffer(request));
      const received = new Request("http://api.invalid", {
        method: "POST",
        headers: { "Content-Type": type },
        body: data,
      });
      const result = await answer(method, path, received);
      const errors = result === null ? [{ code: workerNotFound, message: "not found" }] : [];
      response.writeHead(result === null ? 404 : 200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ success: result !== null, errors, messages: [], result }));
    })();
  });
  const { promise: listening, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listening;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return {
    environment: {
      CI: "1",
      CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${address.port}/client/v4`,
      CLOUDFLARE_API_TOKEN: "a-token",
      CLOUDFLARE_ACCOUNT_ID: "0123456789abcdef0123456789abcdef",
      WRANGLER_SEND_METRICS: "false",
    },
    uploads,
    setSecrets: (names) => {
      exists = true;
      for (const name of names) secrets.add(name);
    },
    close: () => server.close(),
  };
}

/** Reads the multipart form that wrangler uploads: its metadata and the main module. */
async function readUpload(body: Request): Promise<Upload> {
  const form = await body.formData();
  const metadata = form.get("metadata");
  if (typeof metadata !== "string") throw new Error("no metadata was uploaded");
  const { main_module: main, bindings } = JSON.parse(metadata) as {
    main_module: string;
    bindings: Binding[];
  };
  const file = form.get(main);
  if (file === null || typeof file === "string") throw new Error(`no module ${main} was uploaded`);
  return { bindings, code: await file.text() };
}
