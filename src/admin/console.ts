/** Serves the console below `ADMIN_PATH`, on `ADMIN_HOST` only. Its files are the static assets of the Worker. */
import type { MiddlewareHandler } from "hono";
import type { AdminSettings } from "../policy/vars/admin.ts";
import { urlOf } from "../http/attributes.ts";
import type { Assets } from "../http/openapi.ts";
import { problemAnswer, problemResponse, responseOf } from "../http/wire/problems.ts";
import { isOnHost } from "./authenticate.ts";

/** The paths of the views. One page serves all of them, and reads its URL to choose the view. */
const viewPath = /^\/(?:keys|policies|advisor|live|denied|audit|playground)?$/;
/** A path of the API is never a page. A page in a deeper folder would not find its files, which it names relatively. */
const unknownPagePath = /^\/(?!api(?:\/|$))(?<folder>.+\/)?/;
/** The build adds a hash of the content to each name, so browsers need not ask for a file twice. */
const hashedFilePath = /^\/assets\/[\w-]+-[A-Z0-9]{8}\.[a-z]+$/;

const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types playground-worker replay-worker",
].join("; ");

const unusedFeatures = [
  "camera",
  "display-capture",
  "geolocation",
  "microphone",
  "midi",
  "payment",
  "publickey-credentials-get",
  "usb",
];

/** The fields of every answer below `ADMIN_PATH`, and on `ADMIN_HOST`. */
export const isolationFields = {
  "X-Content-Type-Options": "nosniff",
  "Cross-Origin-Resource-Policy": "same-origin",
};

const securityFields = {
  ...isolationFields,
  "Content-Security-Policy": contentSecurityPolicy,
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "X-Frame-Options": "DENY",
  "Permissions-Policy": unusedFeatures.map((feature) => `${feature}=()`).join(", "),
};

/**
 * Answers GET and HEAD requests for the console. It compares paths as received, without normalising them.
 * @param assets undefined when the binding is missing
 */
export const consoleAt =
  ({ path, host }: AdminSettings, assets: Assets | undefined): MiddlewareHandler =>
  async ({ req: { raw } }, next) => {
    const url = urlOf(raw);
    if (url === null || !isRead(raw) || !url.pathname.startsWith(path)) return next();
    const within = url.pathname.slice(path.length);
    const isView = viewPath.test(within);
    const unknownPage = isView || hashedFilePath.test(within) || !wantsPage(raw) ? null : unknownPagePath.exec(within);
    if (within !== "" && !isView && !hashedFilePath.test(within) && unknownPage === null) return next();
    if (!isOnHost(raw, host)) return problemResponse({ kind: "console-elsewhere", url: consoleUrl(url, path, host) });
    if (within === "") return redirectToConsole(raw, path);
    if (unknownPage?.groups?.["folder"] !== undefined) return redirect(302, `${path}/not-found`);
    const isPage = isView || unknownPage !== null;
    const response = await assets?.fetch(assetRequest(raw, isPage ? "/index.html" : within, unknownPage === null));
    if (response?.status === 200 || response?.status === 304) {
      const status = unknownPage === null ? response.status : 404;
      return consoleAnswer(response, status, isPage ? "no-cache" : "public, max-age=31536000, immutable");
    }
    await response?.body?.cancel();
    return problemResponse({
      kind: isPage || assets === undefined ? "console-missing" : "unknown-path",
    });
  };

/** The address of the console, with the scheme and the port of a request to another host. */
const consoleUrl = ({ protocol, port }: URL, path: string, host: string | null): string | null =>
  host === null ? null : `${protocol}//${host}${port === "" ? "" : `:${port}`}${path}/`;

/**
 * `ADMIN_HOST` proxies nothing: a page of the proxied site would share the web origin of the admin API, and could call
 * it as the operator. `/` leads to the console.
 */
export const neverProxied =
  ({ path, host }: AdminSettings): MiddlewareHandler =>
  async ({ req: { raw } }, next) => {
    if (!isOnHost(raw, host)) return next();
    return isRead(raw) && urlOf(raw)?.pathname === "/"
      ? redirectToConsole(raw, path)
      : responseOf(problemAnswer({ kind: "unknown-path" }, { headers: isolationFields }));
  };

/** Relative to the host. It keeps the query. */
const redirectToConsole = (request: Request, path: string): Response =>
  redirect(308, `${path}/${urlOf(request)?.search ?? ""}`);

const redirect = (status: number, location: string): Response =>
  new Response(null, { status, headers: { Location: location, "Cache-Control": "no-store", ...securityFields } });

/** Whether a browser shows the answer as a page. */
const wantsPage = ({ headers }: Request): boolean => /\btext\/html\b/.test(headers.get("Accept") ?? "");

const isRead = ({ method }: Request): boolean => method === "GET" || method === "HEAD";

/** The request for a file. It keeps only the method and, if it is conditional, `If-None-Match` of the received request. */
function assetRequest({ method, headers }: Request, file: string, isConditional: boolean): Request {
  const condition = isConditional ? headers.get("If-None-Match") : null;
  return new Request(`https://assets.invalid${file}`, {
    method,
    ...(condition !== null && { headers: { "If-None-Match": condition } }),
  });
}

function consoleAnswer({ body, headers }: Response, status: number, cacheControl: string): Response {
  const kept = ["Content-Type", "ETag"].flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  return new Response(body, {
    status,
    headers: { ...Object.fromEntries(kept), "Cache-Control": cacheControl, ...securityFields },
  });
}
